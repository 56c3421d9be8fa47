"""QT408: what came with a later release, unless the model defines it itself."""

import pytest
from support.one_rule import findings, parsed


@pytest.mark.parametrize(
    ("release", "reported"),
    [("tensorrt-10.9", True), ("tensorrt-10.10", False), ("tensorrt-11.4", False), ("tensorrt", False)],
)
def test_an_attribute_that_came_with_a_release(release: str, reported: bool):
    model = """agraph (int8[2] x) => (float[2] y) <float s = {1}> {
        [d] y = DequantizeLinear <output_dtype = 1, axis = 0> (x, s)
    }"""
    told = [(each.node, each.found, each.expected) for each in findings("QT408", model, release)]

    assert told == [("d", "DequantizeLinear.output_dtype", "release 10.10 or later")] * reported


def test_an_operator_that_the_model_defines_hides_nothing_behind_it():
    model = parsed("""
    <ir_version: 10, opset_import: ["": 23, "own": 1]>
    agraph (float[1,2] x, float[2] w) => (float[1,2] y) {
        [own] a = own.RMSNormalization (x, w)
        [onnx] y = RMSNormalization (a, w)
    }
    <domain: "own", opset_import: ["": 23]> RMSNormalization (x, w) => (y) { y = Mul (x, w) }""")

    (found,) = findings("QT408", model, "tensorrt-10.14")
    assert (found.node, found.message) == ("onnx", "TensorRT 10.14 does not know RMSNormalization")
    assert findings("QT408", model, "tensorrt-10.15") == []
