"""Quant and BipolarQuant of QONNX are computed as its documentation says; a model with them runs and is checked."""

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import helper, numpy_helper

from qdqtool.errors import ArgumentError
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model
from qdqtool.models.running.own_evaluator import open_session
from qdqtool.models.running.own_nodes import evaluate_quant, is_quant
from qdqtool.models.running.own_support import plan_split

ROUNDED = {
    # The table of QONNX's documentation (docs/qonnx-custom-ops/intquant_v1.md), for these numbers.
    "numbers": [5.5, 2.5, 1.6, 1.1, 1.0, -1.0, -1.1, -1.6, -2.5, -5.5],
    "ROUND": [6, 2, 2, 1, 1, -1, -1, -2, -2, -6],
    "half_even": [6, 2, 2, 1, 1, -1, -1, -2, -2, -6],
    "CEIL": [6, 3, 2, 2, 1, -1, -1, -1, -2, -5],
    "FLOOR": [5, 2, 1, 1, 1, -1, -2, -2, -3, -6],
    "UP": [6, 3, 2, 2, 1, -1, -2, -2, -3, -6],
    "DOWN": [5, 2, 1, 1, 1, -1, -1, -1, -2, -5],
    "ROUND_TO_ZERO": [5, 2, 1, 1, 1, -1, -1, -1, -2, -5],
    "HALF_UP": [6, 3, 2, 1, 1, -1, -1, -2, -3, -6],
    "HALF_DOWN": [5, 2, 2, 1, 1, -1, -1, -2, -2, -5],
}


def quant(x: object, scale: float = 1, zero: float = 0, bits: float = 8, op: str = "Quant", **attributes: object):
    node = helper.make_node(op, list("xszb"), ["y"], domain="qonnx.custom_op.general", **attributes)
    assert is_quant(node)
    (made,) = evaluate_quant(node, [np.float32(each) for each in (x, scale, zero, bits)])
    assert made.dtype == np.float32
    return made.tolist()


@pytest.mark.parametrize("mode", [name for name in ROUNDED if name != "numbers"])
def test_rounding_is_that_of_the_documentation(mode: str):
    assert quant(ROUNDED["numbers"], rounding_mode=mode) == ROUNDED[mode]


@pytest.mark.parametrize(
    ("bits", "signed", "narrow", "low", "high"),
    [
        (8, 1, 0, -128, 127),
        (8, 1, 1, -127, 127),
        (8, 0, 0, 0, 255),
        (8, 0, 1, 0, 254),
        (4, 1, 1, -7, 7),
        (1, 0, 0, 0, 1),
    ],
)
def test_the_range_is_that_of_the_bit_width(bits: int, signed: int, narrow: int, low: float, high: float):
    assert quant([-1e6, 1e6], bits=bits, signed=signed, narrow=narrow) == [low, high]
    assert quant([-1e6, 1e6], 0.5, bits=bits, signed=signed, narrow=narrow, op="IntQuant") == [low / 2, high / 2]


def test_the_zero_point_is_added_before_rounding_and_subtracted_after():
    assert quant([0.5, 1.5, -300, 300], zero=1) == [1.0, 1.0, -129.0, 126.0]
    assert quant([[0.3], [1.3]], [[0.25], [0.5]], [[2], [3]]) == [[0.25], [1.5]]


def test_bipolar_values_have_the_sign_of_the_data():
    node = helper.make_node("BipolarQuant", ["x", "s"], ["y"], domain="onnx.brevitas")
    (made,) = evaluate_quant(node, [np.float32([-2, -0.0, 0, 3]), np.float32(0.5)])
    assert made.tolist() == [-0.5, 0.5, 0.5, 0.5]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"bits": 0}, "its bit width is 0; known are whole numbers from 2 to 32"),
        ({"bits": 1}, "its bit width is 1; known are whole numbers from 2 to 32"),
        ({"bits": 2.5}, "its bit width is 2.5; known are whole numbers from 2 to 32"),
        ({"bits": 33, "signed": 0}, "its bit width is 33; known are whole numbers from 1 to 32"),
        ({"bits": [8, 8]}, "it has 2 bit widths; expected 1"),
        ({"rounding_mode": "odd"}, "its rounding_mode is 'ODD'; known are ROUND, "),
    ],
)
def test_what_quant_does_not_define_is_refused(given: dict, message: str):
    with pytest.raises(ArgumentError) as caught:
        quant([1.0], **given)
    assert str(caught.value).startswith(message)


def test_absent_inputs_are_refused():
    node = helper.make_node("Quant", ["x", "s", ""], ["y"], domain="onnx.brevitas")
    with pytest.raises(ArgumentError, match=r"^it has 2 inputs; expected 4$"):
        evaluate_quant(node, [np.float32(1), np.float32(1), None])


@pytest.mark.parametrize(("domain", "op"), [("", "Quant"), ("my", "Quant"), ("onnx.brevitas", "Trunc")])
def test_other_operators_are_not_evaluated(domain: str, op: str):
    assert not is_quant(helper.make_node(op, ["x"], ["y"], domain=domain))


TEXT = """
<ir_version: 8, opset_import: ["": 17, "finn.custom_op.general": 1]>
g (float[2,3] x) => (float[2,2] y) <float s = {0.5}, float z = {0}, float b = {2}, float[3,2] w = {1,2,3,4,5,6}> {
    q = finn.custom_op.general.Quant <signed = 1, narrow = 0, rounding_mode = "ROUND"> (x, s, z, b)
    y = MatMul (q, w)
}
"""


def test_a_model_runs_with_shapes_behind_its_quant():
    model = Model(onnx.parser.parse_model(TEXT))
    index = ModelIndex.of(model)
    assert index.types.shape(index.view.main.values["q"]) == (2, 3)

    with open_session(model, plan_split(index)) as session:
        made = session.run({"x": np.float32([[0.3, -9, 9], [0.8, 0.25, -0.75]])})["y"]
    quantized = np.float32([[0.5, -1, 0.5], [0.5, 0, -1]])
    np.testing.assert_array_equal(made, quantized @ np.float32([[1, 2], [3, 4], [5, 6]]))


def test_a_model_without_such_operators_is_left_to_shape_inference_as_it_is():
    proto = onnx.parser.parse_model(TEXT.replace("finn.custom_op.general.Quant", "my.Quant"))
    proto.graph.initializer.append(numpy_helper.from_array(np.zeros(1, np.float32), "unused"))
    index = ModelIndex.of(Model(proto))
    assert index.types.shape(index.view.main.values["q"]) is None
