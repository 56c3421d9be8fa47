"""A fix that takes a pair away puts back the Relu or Clip whose work its range did."""

import numpy as np
import onnx
import pytest
from onnx import helper
from support.fixing import maker, read
from support.small import make_model, run

from qdqtool.jobs.fix import FixRequest, fix_model
from qdqtool.linting.policy import Policy
from qdqtool.linting.rules import Draft, UnfitError
from qdqtool.linting.rules.fixes.unquantize import bounded_source
from qdqtool.models.graph.edits.edit import AddNode
from qdqtool.models.graph.edits.naming import Namer
from qdqtool.models.graph.model import Model


def half_quantized(scale: float, zero_point: np.generic, opset: int) -> onnx.ModelProto:
    """x -> MatMul(w) -> Q -> DQ -> MatMul(x) -> y: one operand of the second product is quantized."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("QuantizeLinear", ["m", "s", "z"], ["q"], name="bounds"),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("MatMul", ["d", "x"], ["y"], name="product"),
    ]
    constants = {"w": np.eye(4, dtype=np.float32), "s": np.float32(scale), "z": np.asarray(zero_point)}
    return make_model(nodes, {"x": (4, 4)}, {"y": (4, 4)}, constants, opset=opset)


@pytest.mark.parametrize("opset", [10, 17])
@pytest.mark.parametrize(
    ("scale", "zero_point", "bounds"),
    [
        (0.07, np.uint8(0), (0, np.inf)),
        (6 / 255, np.uint8(0), (0, 6)),
        (2 / 255, np.int8(0), (-1, 1)),
        (0.07, np.int8(0), None),
    ],
    ids=str,
)
def test_the_bounds_stay(scale: float, zero_point: np.generic, bounds: tuple[float, float] | None, opset: int) -> None:
    before = half_quantized(scale, zero_point, opset)
    policy = Policy(targets=("tensorrt",), select=("QL302",))
    fixed = fix_model(Model(before), FixRequest(policy=policy, unsafe=True))
    assert [change.code for change in fixed.report.changes] == ["QL302"]
    x = np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32) * 10
    expected = (np.clip(x, *bounds) if bounds else x) @ x
    assert np.allclose(run(fixed.model.proto, {"x": x})[0], expected, rtol=1e-4)


UNKNOWN = """
agraph (float[4] x) => (float[4] y) <float s = {{{scale}}}, {kind} z = {{0}}> {{
    m = local.Unknown (x)
    q = QuantizeLinear (m, s, z)
    d = DequantizeLinear (q, s, z)
    y = Neg (d)
}}
"""


def test_a_tensor_of_unknown_type_is_not_clipped():
    context = read(UNKNOWN.format(scale=repr(6 / 255), kind="uint8"))
    with pytest.raises(UnfitError) as refused:
        bounded_source(Draft(context, Namer(context.view)), maker(context, "q"), "m")
    assert str(refused.value) == "the type of 'm' is unknown, so that it cannot be clipped"


@pytest.mark.parametrize(("kind", "source"), [("uint8", "m_Relu_Output"), ("int8", "m")])
def test_a_relu_and_no_bound_need_no_type(kind: str, source: str):
    context = read(UNKNOWN.format(scale=0.07, kind=kind))
    draft = Draft(context, Namer(context.view))

    assert bounded_source(draft, maker(context, "q"), "m") == source
    assert [edit.op_type for edit in draft.edits if isinstance(edit, AddNode)] == ["Relu"] * (kind == "uint8")
