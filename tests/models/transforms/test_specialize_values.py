"""Inputs that became constants: the model computes what it did for those values, and notes them."""

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser
from support.small import run

from qdqtool.errors import UsageError
from qdqtool.models.graph.io.metadata import INPUT_VALUES_KEY, read_metadata
from qdqtool.models.graph.model import Model
from qdqtool.models.graph.scope import walk
from qdqtool.models.transforms.specialize import specialize
from qdqtool.models.transforms.specialize_values import fix_values, fixed_values

TWO_RATES = """
<ir_version: 8, opset_import: ["": 17]>
g (float[1,n] x, int64 sr) => (float[1,n] y) <int64 wide = {16000}, float two = {2}, float three = {3}> {
    is_wide = Equal (sr, wide)
    y = If (is_wide) <
        then_branch = then_graph () => (float[1,n] t) { t = Mul (x, two) },
        else_branch = else_graph () => (float[1,n] e) { e = Mul (x, three) }
    >
}
"""


def model_of(kind: int, shape: list[int | str] | None, ir_version: int = 8) -> Model:
    """A model with an input ``v`` beside ``x``, which it casts and adds."""
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [1]),
        helper.make_tensor_value_info("v", kind, shape),
    ]
    nodes = [helper.make_node("Cast", ["v"], ["f"], to=TensorProto.FLOAT), helper.make_node("Add", ["x", "f"], ["y"])]
    output = helper.make_tensor_value_info(
        "y", TensorProto.FLOAT, [f"d{axis}" for axis in range(max(len(shape or []), 1))]
    )
    graph = helper.make_graph(nodes, "g", inputs, [output])
    return Model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=ir_version))


def stored(model: Model) -> np.ndarray:
    (tensor,) = model.proto.graph.initializer
    return numpy_helper.to_array(tensor)


@pytest.mark.parametrize(("rate", "factor"), [(16000, 2), (8000, 3)])
def test_the_branch_that_a_value_decides_takes_the_place_of_the_if(rate, factor):
    model = Model(parser.parse_model(TWO_RATES))
    before = model.proto.SerializeToString()
    special = specialize(model, {"x": (1, 4)}, {"sr": (rate,)})
    assert model.proto.SerializeToString() == before
    after = special.model.proto
    onnx.checker.check_model(after, full_check=True)
    assert [node.op_type for _, container in walk(after) for node in container.node] == ["Mul"]
    assert [value.name for value in after.graph.input] == ["x"]
    x = np.ones((1, 4), np.float32)
    np.testing.assert_array_equal(run(after, {"x": x})[0], x * factor)
    np.testing.assert_array_equal(run(model.proto, {"x": x, "sr": np.array(rate)})[0], x * factor)
    assert special.report.input_values == {"sr": (rate,)}
    assert json.loads(read_metadata(special.model, INPUT_VALUES_KEY) or "") == {"sr": rate}
    assert {name: array.tolist() for name, array in fixed_values(special.model).items()} == {"sr": rate}


@pytest.mark.parametrize(
    ("kind", "shape", "given", "expected"),
    [
        (TensorProto.INT64, [], (-3,), np.array(-3)),
        (TensorProto.INT32, [2], (1, 2), np.array([1, 2], np.int32)),
        (TensorProto.INT32, ["n"], (1, 2, 3), np.array([1, 2, 3], np.int32)),
        (TensorProto.INT64, ["n"], (7,), np.array([7])),
        (TensorProto.FLOAT, [2, 2], (0.1,), np.full((2, 2), 0.1, np.float32)),
        (TensorProto.FLOAT, [2, 2], (1, 2, 3, 4), np.array([[1, 2], [3, 4]], np.float32)),
        (TensorProto.FLOAT16, [1], (65504.0,), np.array([65504], np.float16)),
        (TensorProto.BOOL, [], (True,), np.array(True)),
        (TensorProto.BOOL, [2], (0, 1), np.array([False, True])),
        (TensorProto.UINT8, [], (255.0,), np.array(255, np.uint8)),
    ],
)
def test_values_take_the_type_and_shape_of_the_input(kind, shape, given, expected):
    special = fix_values(model_of(kind, shape), {"v": given}).model
    found = stored(special)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(fixed_values(special)["v"], expected)
    onnx.checker.check_model(special.proto, full_check=True)


@pytest.mark.parametrize(
    ("kind", "shape", "given", "message"),
    [
        (TensorProto.INT64, [], (0.5,), "gives input 'v' the value 0.5, which is no int64"),
        (TensorProto.UINT8, [], (256,), "the value 256, which is no uint8"),
        (TensorProto.UINT8, [], (-1,), "the value -1, which is no uint8"),
        (TensorProto.BOOL, [], (2,), "the value 2, which is no bool"),
        (TensorProto.FLOAT16, [], (1e6,), "the value 1000000.0, which is no float16"),
        (TensorProto.STRING, [], (1,), "input 'v' is string; --input-values fixes numbers and booleans"),
        (TensorProto.INT64, [3], (1, 2), "gives input 'v' 2 values; its shape [3] has 3"),
        (TensorProto.INT64, [], (1, 2), "gives input 'v' 2 values; its shape [] has 1"),
        (TensorProto.INT64, [2, "n"], (1,), "input 'v' has open dimensions"),
        (TensorProto.INT64, None, (1,), "input 'v' declares no shape"),
    ],
)
def test_values_that_do_not_fit_are_named(kind, shape, given, message):
    with pytest.raises(UsageError) as error:
        fix_values(model_of(kind, shape), {"v": given})
    assert message in error.value.message


def test_an_open_shape_is_fixed_first():
    with pytest.raises(UsageError) as error:
        specialize(model_of(TensorProto.INT64, [2, "n"]), {}, {"v": (1,)})
    assert error.value.hint == "give its shape too, for example: `--input-shapes v:2x1`"
    special = specialize(model_of(TensorProto.INT64, [2, "n"]), {"v": (2, 1)}, {"v": (5, 6)}).model
    np.testing.assert_array_equal(fixed_values(special)["v"], [[5], [6]])


def test_a_wrong_name_is_named_with_the_right_ones():
    with pytest.raises(UsageError) as error:
        fix_values(model_of(TensorProto.INT64, []), {"vv": (1,)})
    assert error.value.message == (
        "--input-values names 'vv', which is no input of the model; the inputs are x, v; did you mean 'v'?"
    )


def test_an_old_ir_version_keeps_the_constant_among_the_inputs():
    special = fix_values(model_of(TensorProto.INT64, [], ir_version=3), {"v": (4,)}).model
    assert [value.name for value in special.proto.graph.input] == ["x", "v"]
    onnx.checker.check_model(special.proto)
    assert run(special.proto, {"x": np.ones(1, np.float32)})[0].tolist() == [5]


def test_a_constant_may_be_named_again_with_its_value():
    once = fix_values(model_of(TensorProto.INT64, [2]), {"v": (4, 5)}).model
    assert fix_values(once, {"v": (4, 5)}).model is once
    with pytest.raises(UsageError, match=r"gives input 'v' \[4\]; the model has it as a constant of \[4, 5\]"):
        fix_values(once, {"v": (4,)})
    filled = fix_values(model_of(TensorProto.INT64, [2]), {"v": (4,)}).model
    assert fix_values(filled, {"v": (4,)}).model is filled


def test_notes_of_two_steps_are_kept():
    once = fix_values(model_of(TensorProto.INT64, []), {"v": (4,)}).model
    twice = fix_values(once, {"x": (0.5,)}).model
    assert {name: array.tolist() for name, array in fixed_values(twice).items()} == {"v": 4, "x": [0.5]}
    assert [value.name for value in twice.proto.graph.input] == []


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"v": "a"}', '{"v": [[1], [2, 3]]}', '{"v": {}}', "[" * 5000])
def test_a_malformed_note_says_nothing(text):
    model = model_of(TensorProto.INT64, [])
    model.proto.metadata_props.add(key=INPUT_VALUES_KEY, value=text)
    assert fixed_values(model) == {}


def test_no_values_change_nothing():
    model = model_of(TensorProto.INT64, [])
    assert fix_values(model, {}).model is model
