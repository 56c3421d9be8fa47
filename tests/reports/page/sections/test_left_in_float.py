"""Unquantized nodes, with the reason, and tensors that no scale serves well; of one model and of two."""

from pathlib import Path
from typing import Any

from support.page_blocks import blocks_of, lines, sentences, table, texts
from support.pairs import pair_of, rows_of, said_in
from support.printed import ESCAPED, HOSTILE
from support.saved_reports import ALL, INSPECT, QUANTIZE, SECOND, edited

from qdqtool.reports.page.sections import left_in_float
from qdqtool.reports.page.sections.left_in_float import blocks

ODD = {"tensor": "t", "graph": "", "condition": "zeros", "action": "scale is 1"}


def quantized(**changes: Any) -> Any:
    return edited(QUANTIZE, lambda it: it.update(changes))


def test_each_node_has_its_reason_in_the_order_of_the_report(tmp_path: Path):
    skips = [
        {"node": "z", "op_type": "Gemm", "graph": "", "reason": "too small"},
        {"node": HOSTILE, "op_type": "Conv", "graph": "body", "reason": HOSTILE},
    ]
    found = table(blocks_of(blocks, tmp_path, quantize=quantized(skipped=skips)))

    assert found.caption == "Reasons"
    assert sentences(found) == ["Reason"]
    assert [[cell.text for cell in row] for row in found.rows] == [
        ["z", "Gemm", "too small"],
        [f"body/{ESCAPED}", "Conv", ESCAPED],
    ]


def test_where_nothing_stayed_float_a_sentence_says_so(tmp_path: Path):
    found = blocks_of(blocks, tmp_path, quantize=quantized(skipped=[]))
    assert lines(found) == [("Nodes", ("Every quantizable operator is quantized.",))]
    assert len(found) == 1


def test_odd_tensors_stand_below_with_what_was_done(tmp_path: Path):
    odd = [{**ODD, "graph": "then"}, {**ODD, "tensor": HOSTILE, "action": HOSTILE}]
    for skipped in (QUANTIZE["skipped"], []):
        found = blocks_of(blocks, tmp_path, quantize=quantized(skipped=skipped, degenerate=odd))
        second = table(found[1:], "Tensors that no scale serves well")

        assert len(found) == 2
        assert texts(second, "Tensor") == ["then/t", ESCAPED]
        assert texts(second, "Condition") == ["zeros", "zeros"]
        assert texts(second, "What was done") == ["scale is 1", ESCAPED]
        assert sentences(second) == ["What was done"]


def test_only_quantize_knows_it(tmp_path: Path):
    assert blocks_of(blocks, tmp_path, **{name: ALL[name] for name in ALL if name != "quantize"}) == ()


def skipping(documents: Any, *nodes: str) -> Any:
    skip = ALL["quantize"]["skipped"][0]
    return {"quantize": documents["quantize"] | {"skipped": [skip | {"node": node} for node in nodes]}}


def test_nodes_in_float_in_one_model_only(tmp_path: Path):
    found = left_in_float.compared(pair_of(tmp_path, skipping(ALL, "p", "q"), skipping(SECOND, "q", "r")))
    assert rows_of(found, "in A only") == {"p": ["Gemm", "too small"]}
    assert rows_of(found, "in B only") == {"r": ["Gemm", "too small"]}
    same = left_in_float.compared(pair_of(tmp_path, skipping(ALL, "p"), skipping(SECOND, "p")))
    assert said_in(same) == ["Both models leave the same nodes unquantized."]


def test_a_model_of_another_tool_is_compared_by_operators(tmp_path: Path):
    def covering(documents: Any, **counts: int) -> Any:
        made = [{"op_type": kind, "total": 9, "quantized": count, "partly": 0} for kind, count in counts.items()]
        return {"inspect": documents["inspect"] | {"coverage": made}}

    found = left_in_float.compared(pair_of(tmp_path, covering(ALL, Conv=5, Gemm=1), covering(SECOND, Conv=7, MatMul=2)))
    assert rows_of(found) == {"Conv": ["5", "7", "-2"], "Gemm": ["1", "0", "+1"], "MatMul": ["0", "2", "-2"]}
    of_float = {"inspect": INSPECT | {"groups": []}}
    assert left_in_float.compared(pair_of(tmp_path, ALL, of_float)) == ()
