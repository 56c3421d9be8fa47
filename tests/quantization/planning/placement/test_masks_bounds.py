"""The output of a Softmax has a fixed scale in fp8, and a calibrated one in int8."""

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from support.engine_models import Net
from support.networks import bert
from support.placed import proposal

from qdqtool.jobs.quantize import QuantizeOptions, quantize_model
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.samples.request import RandomData


def mixed(*between):
    """Softmax, the operators ``between``, and a MatMul with a weight."""
    net = Net(17)
    value = net.op("Softmax", ["x"], "softmax", axis=-1)
    for number, (op_type, inputs, attributes) in enumerate(between):
        value = net.op(op_type, [value, *inputs], f"v{number}", **attributes)
    net.constant("factor", np.float32(2))
    net.constant("shape", np.array([1, 8, 16]))
    net.op("MatMul", [value, net.float_weight("w", (16, 16))], "y")
    return net.model({"x": (8, 16)})


def bounds(model, number_format):
    return [slot.bound for slot in proposal(model, number_format=number_format).slots if slot.kind == "activation"]


@pytest.mark.parametrize(
    "between",
    [
        (),
        (("Identity", (), {}),),
        (("Dropout", (), {}), ("Reshape", ("shape",), {})),
        (("Cast", (), {"to": onnx.TensorProto.FLOAT}), ("Transpose", (), {"perm": [0, 1]})),
    ],
)
def test_the_scale_of_a_softmax_is_known_in_fp8_and_asked_of_the_data_in_int8(between):
    assert bounds(mixed(*between), "float8e4m3fn") == [1.0]
    assert bounds(mixed(*between), "int8") == [None]


def test_in_int8_the_output_of_a_softmax_is_marked_as_peaked_and_nothing_else_is():
    for between, peaked in [((), True), ((("Mul", ("factor",), {}),), False)]:
        slots = proposal(mixed(*between)).slots
        assert {slot.kind: slot.peaked for slot in slots} == {"activation": peaked, "weight": False}


@pytest.mark.parametrize("op", [("Mul", ("factor",), {}), ("Exp", (), {})])
def test_what_changes_the_values_ends_the_bound(op):
    assert bounds(mixed(op), "float8e4m3fn") == [None]


def test_quantize_writes_one_over_448_behind_every_softmax(tmp_path):
    onnx.save(bert(), tmp_path / "bert.onnx")
    options = QuantizeOptions(recipe=Recipe(quantize_mode="fp8"))
    quantize_model(tmp_path / "bert.onnx", RandomData(samples=2), tmp_path / "q.onnx", options)
    graph = onnx.load(tmp_path / "q.onnx").graph
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    scales = [
        constants[node.input[1]]
        for node in graph.node
        if node.op_type == "QuantizeLinear" and node.input[0].endswith("_weights")
    ]
    assert scales == [np.float32(1 / 448)] * 2


@pytest.mark.parametrize(("moves", "bound"), [(15, 1.0), (16, None)])
def test_the_softmax_is_looked_for_through_a_limited_number_of_operators(moves, bound):
    assert bounds(mixed(*[("Identity", (), {})] * moves), "float8e4m3fn") == [bound]
