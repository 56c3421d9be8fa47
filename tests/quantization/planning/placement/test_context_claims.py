"""Slots of constants that reach their readers through operators that only move values."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from support.engine_models import ROWS, Net
from support.placed import proposal

from qdqtool.quantization.planning.placement import Selection


def weights(model: onnx.ModelProto, **selection: tuple[str, ...]) -> list[tuple[str, str, list[str], str]]:
    """Tensor, granularity, the first outputs of its readers, and the reason."""
    return [
        (each.slot.tensor, str(each.scheme.granularity), [use.node[0] for use in each.uses], each.reason)
        for each in proposal(model, Selection(**selection)).slots
        if each.kind == "weight"
    ]


def transposed(net: Net, output: str = "t", **attributes: object) -> str:
    return net.op("Transpose", [net.float_weight("w", (32, 64))], output, **attributes)


def test_every_slot_moves_up_whichever_comes_last():
    net = Net(17)
    net.op("MatMul", ["x", transposed(net, perm=[1, 0])], "y")
    net.op("MatMul", ["y", net.float_weight("v", (32, 32))], "z")
    expected = [("w", "per-axis 0", ["t"], "weight of MatMul"), ("v", "per-axis 1", ["z"], "weight of MatMul")]
    assert weights(net.model(ROWS, "z")) == expected


def test_two_readers_behind_one_transpose_share_the_slot_in_front_of_it():
    net = Net(17)
    transposed(net)
    net.op("Gemm", ["x", "t"], "y")
    net.op("MatMul", ["x", "t"], "z")
    assert weights(net.model(ROWS)) == [("w", "per-axis 0", ["t"], "weight of Gemm, weight of MatMul")]


@pytest.mark.parametrize("other", ["Relu", "output", "excluded"])
def test_a_slot_stays_behind_a_transpose_that_something_else_reads(other):
    net = Net(17)
    net.op("MatMul", ["x", transposed(net)], "y")
    if other == "Relu":
        net.op("Relu", ["t"], "z")
    if other == "excluded":
        net.op("MatMul", ["x", "t"], "z")
    model = net.model(ROWS)
    if other == "output":
        model.graph.output.append(helper.make_tensor_value_info("t", TensorProto.FLOAT, (64, 32)))
    selection = {"nodes_to_exclude": ("z.MatMul",)} if other == "excluded" else {}
    assert weights(model, **selection) == [("t", "per-axis 1", ["y"], "weight of MatMul")]


def test_a_slot_stays_where_the_axis_in_front_is_unknown():
    """Without `perm` it depends on the rank, which a constant of a node has only in the types."""
    net = Net(17)
    stored = onnx.numpy_helper.from_array(np.ones((32, 64), np.float32))
    net.nodes.append(helper.make_node("Constant", [], ["w"], value=stored))
    net.op("MatMul", ["x", net.op("Transpose", ["w"], "t")], "y")
    assert weights(net.model(ROWS)) == [("t", "per-axis 1", ["y"], "weight of MatMul")]


@pytest.mark.parametrize(
    ("op", "lifted"), [("Transpose", True), ("Identity", True), ("Mul", False), ("Reshape", False)]
)
def test_one_scale_for_all_moves_in_front_of_what_reorders_axes_alone(op, lifted):
    net = Net(17)
    net.float_weight("w", (64,))
    others = {"Mul": [net.constant("two", np.float32(2))], "Reshape": [net.constant("shape", np.array([64]))]}
    net.op("MatMul", ["x", net.op(op, ["w", *others.get(op, [])], "t")], "y")
    found = weights(net.model(ROWS))
    assert found == [("w" if lifted else "t", "per-tensor", ["t" if lifted else "y"], "weight of MatMul")]
