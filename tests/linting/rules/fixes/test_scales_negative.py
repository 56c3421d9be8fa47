"""Negative scales of stored codes: the same values with positive ones, but for the lowest code."""

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from qdqtool.jobs.fix import FixRequest, fix_model
from qdqtool.linting.policy import Policy
from qdqtool.linting.repair.report import Repaired
from qdqtool.models.graph.io.save import inlined
from qdqtool.models.graph.model import Model

MODEL = """
<ir_version: 10, opset_import: ["": 21]>
agraph (float[1,2] x) => (float[1,2] y) <%s[2,2] w = {%s}, float%s ws = {%s}, %s%s wz = {%s}> {
    wd = DequantizeLinear <axis = %d> (w, ws, wz)
    y = MatMul (x, wd)
}
"""


def model(codes: str, scales: str, zeros: str, *, shape: str = "[2]", axis: int = 1, kind: str = "int8") -> Model:
    words = (kind, codes, shape, scales, kind, shape, zeros, axis)
    return Model(onnx.parser.parse_model(MODEL % words))


def fixed(given: Model, *, unsafe: bool) -> tuple[onnx.ModelProto, Repaired]:
    policy = Policy(targets=("tensorrt-rtx",), select=("QP101",))
    done = fix_model(given, FixRequest(policy=policy, unsafe=unsafe))
    proto = inlined(done.model)
    assert proto is not None
    return proto, done.report


def product(proto: onnx.ModelProto) -> np.ndarray:
    return ReferenceEvaluator(proto).run(None, {"x": np.array([[0.5, -3.0]], np.float32)})[0]


def scales(proto: onnx.ModelProto) -> np.ndarray:
    dequantize = next(node for node in proto.graph.node if node.op_type == "DequantizeLinear")
    found = {tensor.name: tensor for tensor in proto.graph.initializer}
    return onnx.numpy_helper.to_array(found[dequantize.input[1]])


@pytest.mark.parametrize("axis", [0, 1])
def test_codes_and_scales_are_negated(axis: int):
    given = model("1, -2, 127, 4", "0.5, -0.25", "0, 0", axis=axis)
    proto, report = fixed(given, unsafe=False)

    assert [change.label for change in report.changes] == ["safe"]
    assert np.all(scales(proto) == [0.5, 0.25])
    np.testing.assert_array_equal(product(proto), product(given.proto))


def test_the_lowest_code_loses_one_step_and_only_where_that_is_allowed():
    given = model("1, -128, -128, 4", "0.5, -0.25", "0, 0")
    _, report = fixed(given, unsafe=False)
    assert not report.changes
    assert "-128" in report.refused[0].reason or report.refused[0].label == "unsafe"

    proto, report = fixed(given, unsafe=True)
    assert [change.label for change in report.changes] == ["unsafe"]
    # Of the second column, 32 becomes 31.75; the first has a positive scale and keeps its -128.
    expected = np.array([[0.5, -3.0]], np.float32) @ np.array([[0.5, 31.75], [-64, -1]], np.float32)
    np.testing.assert_array_equal(product(proto), expected)


@pytest.mark.parametrize(
    ("codes", "values", "zeros", "kind"),
    [
        ("1, 2, 3, 4", "0.5, -0.25", "0, 1", "int8"),
        ("1, 2, 3, 4", "0.5, -0.25", "0, 0", "uint8"),
        ("1, 2, 3, 4", "0, -0.25", "0, 0", "int8"),
        ("1, 2, 3, 4", "inf, -0.25", "0, 0", "int8"),
    ],
)
def test_what_cannot_be_negated_stays(codes: str, values: str, zeros: str, kind: str):
    _, report = fixed(model(codes, values, zeros, kind=kind), unsafe=True)
    assert not report.changes
