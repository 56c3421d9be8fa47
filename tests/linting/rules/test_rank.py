"""QA210: quantized tensors of more dimensions than TensorRT has."""

import pytest
from support.one_rule import findings, nodes


@pytest.mark.parametrize(("dimensions", "reported"), [(0, False), (7, False), (8, False), (9, True), (12, True)])
def test_dimensions(dimensions: int, reported: bool):
    shape = f"[{', '.join(['1'] * dimensions)}]" if dimensions else ""
    model = f"""agraph (float{shape} x, int8{shape} k) => (float{shape} y) <float s = {{1}}> {{
        [q] c = QuantizeLinear (x, s)
        [d] y = DequantizeLinear (c, s)
        [k] z = DequantizeLinear (k, s)
    }}"""
    found = findings("QA210", model)

    assert [each.node for each in found] == ["q", "k"] * reported
    assert {(each.found, each.expected) for each in found} <= {(f"{dimensions} dimensions", "at most 8")}


def test_an_unknown_rank_is_not_judged():
    assert nodes("QA210", "agraph (float[] x, float s) => (uint8[] y) { y = QuantizeLinear (x, s) }") == []
