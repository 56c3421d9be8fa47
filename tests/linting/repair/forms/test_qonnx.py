"""Quant of QONNX becomes Q/DQ with the same values, or stays as it is."""

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper
from support.small import run

from qdqtool.jobs.normalize import normalized_model
from qdqtool.linting.repair.report import Repaired
from qdqtool.models.graph.io.save import save_model
from qdqtool.models.graph.model import Model
from qdqtool.samples.request import DataRequest

SHAPE = (4, 6)
W = np.random.default_rng(5).normal(size=SHAPE).astype(np.float32)
PER_ROW = np.float32([[0.01], [0.02], [0.5], [0.0625]])
ACTIVATION = "q = qonnx.custom_op.general.Quant <{}> (x, s, z, b) y = Neg (q)"
WEIGHT = "q = qonnx.custom_op.general.Quant <{}> (w, s, z, b) y = Add (x, q)"


def model(nodes: str, attributes: str = "", opset: int = 17, **constants: object) -> Model:
    """A model between ``x`` and ``y``; constants are float32, if they are no arrays."""
    imports = f'["": {opset}, "qonnx.custom_op.general": 1, "onnx.brevitas": 1, "my": 1]'
    body = nodes.format(attributes).replace("<>", "")
    proto = onnx.parser.parse_model(
        f"<ir_version: 8, opset_import: {imports}> g (float[4,6] x) => (float[4,6] y) {{{body}}}"
    )
    for name, value in ({"w": W, "s": 0.25, "z": 0, "b": 8} | constants).items():
        array = value if isinstance(value, np.ndarray) else np.float32(value)
        proto.graph.initializer.append(numpy_helper.from_array(np.asarray(array), name))
    return Model(proto)


def normalized(given: Model, tmp_path) -> tuple[onnx.ModelProto, Repaired]:
    found = normalized_model(given, DataRequest(samples=3))
    save_model(found.model, tmp_path / "m.onnx")
    proto = onnx.load(tmp_path / "m.onnx")
    onnx.checker.check_model(proto, full_check=True)
    return proto, found.report


def expected(x: np.ndarray, scale: object, zero: object, low: float, high: float) -> np.ndarray:
    """QONNX's documented formula, in float32, rounding half to even."""
    scale, zero = np.float32(scale), np.float32(zero)
    return (np.round(np.clip(x / scale + zero, np.float32(low), np.float32(high))) - zero) * scale


def halves(scale: object) -> np.ndarray:
    """Inputs on, beside and far beyond the borders of codes."""
    steps = np.float32([-1e3, -128.5, -127.5, -64.5, -8.5, -7.5, -1.5, -0.5, 0.5, 2.5, 7.5, 63.5, 64.5, 127.5])
    return np.concatenate([steps, np.nextafter(steps, np.float32(0)), steps / 3])[:24].reshape(SHAPE) * np.float32(
        scale
    )


@pytest.mark.parametrize(
    ("attributes", "bits", "limits", "ops", "kind"),
    [
        ("signed = 1, narrow = 0", 8, (-128, 127), [], np.int8),
        ('signed = 1, narrow = 0, rounding_mode = "round"', 8, (-128, 127), [], np.int8),
        ('signed = 1, narrow = 0, rounding_mode = "HALF_EVEN"', 8, (-128, 127), [], np.int8),
        ("signed = 1, narrow = 1", 8, (-127, 127), ["Clip"], np.int8),
        ("signed = 1, narrow = 0", 4, (-8, 7), ["Clip"], np.int8),
        ("signed = 0, narrow = 0", 7, (0, 127), ["Clip"], np.int8),
        ("signed = 0, narrow = 0", 8, (0, 255), [], np.uint8),
        ("signed = 0, narrow = 1", 8, (0, 254), ["Clip"], np.uint8),
        ("signed = 1, narrow = 1", 2, (-1, 1), ["Clip"], np.int8),
        ("signed = 1, narrow = 0", 16, (-32768, 32767), [], np.int16),
    ],
)
def test_a_pair_has_the_values_of_an_activation(attributes, bits, limits, ops, kind, tmp_path):
    low, high = limits
    for scale in (0.25, 0.1):
        after, done = normalized(model(ACTIVATION, attributes, b=bits, s=scale), tmp_path)

        assert [node.op_type for node in after.graph.node] == [*ops, "QuantizeLinear", "DequantizeLinear", "Neg"]
        assert [output.equal for output in done.outputs] == [True]
        zero = next(tensor for tensor in after.graph.initializer if tensor.name.endswith("zero_point"))
        assert (numpy_helper.to_array(zero).dtype, numpy_helper.to_array(zero).tolist()) == (kind, 0)
        x = halves(scale)
        assert np.array_equal(run(after, {"x": x})[0], -expected(x, scale, 0, low, high))
        name, shown = np.dtype(kind).name, f" behind a Clip to the codes of {low} to {high}" if ops else ""
        assert done.changes[0].description == f"writes Quant of QONNX as a Q/DQ pair of {name}{shown}"


@pytest.mark.parametrize("narrow", [0, 1])
@pytest.mark.parametrize("axis", [0, 1])
def test_scales_along_an_axis_are_those_of_the_pair(narrow: int, axis: int, tmp_path):
    scale = PER_ROW if axis == 0 else np.linspace(0.1, 2, 6, dtype=np.float32)
    after, _ = normalized(model(ACTIVATION, f"signed = 1, narrow = {narrow}", s=scale), tmp_path)

    assert [node.op_type for node in after.graph.node] == [
        *(["Max", "Min"] if narrow else []),
        *("QuantizeLinear", "DequantizeLinear", "Neg"),
    ]
    assert [attribute.i for node in after.graph.node for attribute in node.attribute] == [axis, axis]
    x = W * 100
    assert np.array_equal(run(after, {"x": x})[0], -expected(x, scale, 0, narrow - 128, 127))


@pytest.mark.parametrize(
    "pair",
    [
        ("signed = 0, narrow = 0", 8, 128, (0, 255), np.int8, 0),
        ("signed = 0, narrow = 0", 4, 3, (0, 15), np.int8, 0),
        ("signed = 0, narrow = 0", 8, 3, (0, 255), np.uint8, 3),
        ("signed = 1, narrow = 0", 8, -4, (-128, 127), np.int8, -4),
    ],
)
def test_the_zero_point_is_0_where_int8_has_the_codes(pair, tmp_path):
    attributes, bits, zero, limits, kind, stored = pair
    after, _ = normalized(model(ACTIVATION, attributes, b=bits, z=zero), tmp_path)

    (tensor,) = [tensor for tensor in after.graph.initializer if tensor.name.endswith("zero_point")]
    assert (numpy_helper.to_array(tensor).dtype, numpy_helper.to_array(tensor).tolist()) == (kind, stored)
    # Values halfway between two codes may move, so there are none.
    x = np.linspace(-80, 80, 24, dtype=np.float32).reshape(SHAPE) + np.float32(0.03)
    assert np.array_equal(run(after, {"x": x})[0], -expected(x, 0.25, zero, *limits))


def codes_of(proto: onnx.ModelProto) -> np.ndarray:
    (node,) = [node for node in proto.graph.node if node.op_type == "DequantizeLinear"]
    return next(numpy_helper.to_array(tensor) for tensor in proto.graph.initializer if tensor.name == node.input[0])


@pytest.mark.parametrize(
    ("attributes", "bits", "zero", "limits", "kind"),
    [
        ("signed = 1, narrow = 1", 8, 0, (-127, 127), np.int8),
        ("signed = 1, narrow = 1", 4, 0, (-7, 7), np.int8),
        ("signed = 0, narrow = 0", 4, 9, (0, 15), np.int8),
        ("signed = 0, narrow = 0", 4, np.float32([[9], [0], [3], [1]]), (0, 15), np.int8),
        ("signed = 0, narrow = 0", 8, np.float32([[9], [0], [3], [255]]), (0, 255), np.uint8),
    ],
)
def test_weights_are_stored_as_codes(attributes, bits, zero, limits, kind, tmp_path):
    after, done = normalized(model(WEIGHT, attributes, b=bits, z=zero, s=PER_ROW), tmp_path)

    assert [node.op_type for node in after.graph.node] == ["DequantizeLinear", "Add"]
    codes, x = codes_of(after), np.zeros(SHAPE, np.float32)
    assert codes.dtype == kind
    assert np.array_equal(run(after, {"x": x})[0], expected(W, PER_ROW, zero, *limits))
    assert done.changes[0].description == f"writes Quant of QONNX as a DQ of stored {codes.dtype} codes"
    assert "w" not in {tensor.name for tensor in after.graph.initializer}


@pytest.mark.parametrize(("mode", "rounded"), [("FLOOR", np.floor), ("CEIL", np.ceil), ("ROUND_TO_ZERO", np.trunc)])
def test_weights_may_be_rounded_in_any_way(mode: str, rounded, tmp_path):
    after, done = normalized(model(WEIGHT, f'signed = 1, rounding_mode = "{mode}"', s=0.25), tmp_path)

    assert done.changes[0].label == "safe"
    assert np.array_equal(codes_of(after), rounded(W / np.float32(0.25)))


def test_biases_of_32_bits_become_the_floats_that_they_mean(tmp_path):
    after, done = normalized(model(WEIGHT, "signed = 1, narrow = 0", b=32, s=2.0**-20), tmp_path)

    assert [change.description for change in done.changes] == ["writes Quant of QONNX as a float constant"]
    assert [node.op_type for node in after.graph.node] == ["Add"]
    made = run(after, {"x": np.zeros(SHAPE, np.float32)})[0]
    assert np.array_equal(made, expected(W, 2.0**-20, 0, -(2.0**31), 2.0**31))


@pytest.mark.parametrize(("opset", "bits", "found"), [(9, 8, 13), (13, 8, 13), (17, 16, 21)])
def test_the_opset_has_the_pair(opset: int, bits: int, found: int, tmp_path):
    after, _ = normalized(model(ACTIVATION, "signed = 1, narrow = 0", opset=opset, b=bits), tmp_path)
    assert after.opset_import[0].version == found


@pytest.mark.parametrize("op", ["qonnx.custom_op.general.IntQuant", "onnx.brevitas.Quant"])
def test_older_and_newer_names_are_known(op: str, tmp_path):
    _, done = normalized(model(ACTIVATION.replace("qonnx.custom_op.general.Quant", op), "signed = 1"), tmp_path)
    assert done.changes


ABSENT = "its scale, zero point or bit width is absent or not constant"
Q = "q = qonnx.custom_op.general.Quant"


@pytest.mark.parametrize(
    ("nodes", "attributes", "constants", "reason"),
    [
        (ACTIVATION, 'rounding_mode = "FLOOR"', {}, "its rounding mode is FLOOR; a Q rounds half to even"),
        (ACTIVATION, 'rounding_mode = "odd"', {}, "its rounding_mode is 'ODD'; known are ROUND, "),
        (ACTIVATION, "signed = 1", {"b": 1}, "its bit width is 1; known are whole numbers from 2 to 32"),
        (ACTIVATION, "signed = 1", {"b": np.float32([8, 4])}, "it has 2 bit widths; expected 1"),
        (ACTIVATION, "signed = 1", {"b": 20}, "no type of a Q has exactly its codes, -524288 to 524287"),
        (ACTIVATION, "signed = 1", {"z": 0.5}, "its zero point must be an integer, as in a Q"),
        (ACTIVATION, "signed = 1", {"z": np.nan}, "its zero point must be an integer, as in a Q"),
        (ACTIVATION, "signed = 1", {"z": 1e6}, "no type of a Q has exactly its codes, -128 to 127"),
        (ACTIVATION, "signed = 1", {"s": 0}, "a scale is not finite and positive"),
        (ACTIVATION, "signed = 1", {"s": np.inf}, "a scale is not finite and positive"),
        (ACTIVATION, "signed = 1", {"s": np.array(0.5)}, "its data or its scale is not float32"),
        (ACTIVATION, "signed = 1", {"s": np.zeros(0, np.float32)}, "its scale or zero point is empty"),
        (ACTIVATION, "signed = 1", {"s": np.full(SHAPE, 0.5, np.float32)}, "the scale has several axes"),
        (ACTIVATION, "signed = 1", {"s": np.full(5, 0.5, np.float32)}, "the number of scales does not fit the data"),
        (ACTIVATION, "signed = 1", {"s": PER_ROW, "z": np.float32([1] * 6)}, "a constant is broadcast along another"),
        (f"k = ReduceMax <keepdims = 0> (x) {Q} (x, k, z, b) y = Neg (q)", "", {}, ABSENT),
        (f"{Q} (x, s, z) y = Neg (q)", "", {}, ABSENT),
        (f"{Q} () y = Neg (x)", "", {}, ABSENT),
        ("q = onnx.brevitas.BipolarQuant (x, s) y = Neg (q)", "", {}, "Q/DQ cannot express BipolarQuant"),
        ("q = onnx.brevitas.Trunc (x, s, z, b, b) y = Neg (q)", "", {}, "Q/DQ cannot express Trunc"),
        ("q = onnx.brevitas.FloatQuant (x, s, z, b, b) y = Neg (q)", "", {}, "Q/DQ cannot express FloatQuant"),
    ],
)
def test_what_no_pair_has_stays_with_a_reason(nodes: str, attributes: str, constants: dict, reason: str):
    given = model(nodes, attributes, **constants)
    found = normalized_model(given, DataRequest(samples=2))

    assert not found.report.changes
    assert [refused.reason[: len(reason)] for refused in found.report.refused] == [reason]
    assert found.model.proto == given.proto


def test_a_wide_constant_that_is_an_output_stays():
    given = model(WEIGHT, "signed = 1", b=32)
    given.proto.graph.output.append(helper.make_tensor_value_info("q", TensorProto.FLOAT, SHAPE))

    assert [refused.reason for refused in normalized_model(given, DataRequest()).report.refused] == ["'q' is an output"]


def test_operators_of_other_domains_stay():
    given = model("q = my.Quant (x, s, z, b) y = Neg (q)")
    assert normalized_model(given, DataRequest(samples=2)).report.refused == ()
