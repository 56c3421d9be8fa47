"""What stayed float, with the reason, and tensors that no scale serves well."""

from pathlib import Path
from typing import Any

from support.page_blocks import blocks_of, lines, sentences, table, texts
from support.printed import ESCAPED, HOSTILE
from support.saved_reports import ALL, QUANTIZE, edited

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

    assert found.caption == "Unquantized nodes"
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
