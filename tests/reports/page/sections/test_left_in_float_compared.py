"""Nodes in float of two models."""

from pathlib import Path
from typing import Any

from support.pairs import pair_of, rows_of, said_in
from support.saved_reports import ALL, INSPECT, SECOND

from qdqtool.reports.page.sections import left_in_float


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
