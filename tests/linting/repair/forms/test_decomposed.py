"""Fake-quantization in single operators becomes the pair that computes the same, or stays as it is."""

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper
from support.small import run

from qdqtool.jobs.normalize import normalized_model
from qdqtool.linting.repair.forms import find
from qdqtool.linting.repair.report import Repaired
from qdqtool.linting.rules import Draft, RuleContext, UnfitError
from qdqtool.models.graph.edits.naming import Namer
from qdqtool.models.graph.io.save import save_model
from qdqtool.models.graph.model import Model
from qdqtool.samples.request import DataRequest

MUL = "a = Mul (x, i) b = Round (a) c = Clip (b, lo, hi) y = Mul (c, s)"
CAST = "a = Div (x, s) b = Round (a) c = Clip (b, lo, hi) k = Cast <to = {}> (c) f = Cast <to = {}> (k) y = Mul (f, s)"
PLAIN = "a = Div (x, s) b = Round (a) c = Clip (b, lo, hi) y = Mul (c, s)"
SHIFTED = "a = Div (x, s) b = Round (a) m = Add (b, z) c = Clip (m, lo, hi) d = Sub (c, z) y = Mul (d, s)"


def model(nodes: str, opset: int = 21, shape: str = "2,3,4", **constants: object) -> Model:
    """A model of nodes between ``x`` and ``y``, with constants of these values: float32, if they are no arrays."""
    header = f'<ir_version: 10, opset_import: ["": {opset}, "my": 1]>'
    proto = onnx.parser.parse_model(f"{header} g (float[{shape}] x) => (float[{shape}] y) {{ {nodes} }}")
    for name, value in constants.items():
        array = value if isinstance(value, np.ndarray) else np.float32(value)
        proto.graph.initializer.append(numpy_helper.from_array(np.asarray(array), name))
    return Model(proto)


def normalized(given: Model) -> tuple[Model, Repaired]:
    found = normalized_model(given, DataRequest(samples=3))
    return found.model, found.report


def stored(found: Model, tmp_path) -> onnx.ModelProto:
    save_model(found, tmp_path / "stored.onnx")
    return onnx.load(tmp_path / "stored.onnx")


def constants_of(proto: onnx.ModelProto, op_type: str) -> list[np.ndarray]:
    """Scale and zero point of the only node of an operator."""
    (node,) = [each for each in proto.graph.node if each.op_type == op_type]
    tensors = {tensor.name: numpy_helper.to_array(tensor) for tensor in proto.graph.initializer}
    return [tensors[name] for name in node.input[1:]]


def pair_with(low: float, high: float, zero: float | None = None, **constants: object) -> Model:
    nodes = ["a = Div (x, s)", "b = Round (a)"]
    nodes += (
        ["m = Add (b, z)", "c = Clip (m, lo, hi)", "d = Sub (c, z)"] if zero is not None else ["c = Clip (b, lo, hi)"]
    )
    nodes += [f"y = Mul ({'c' if zero is None else 'd'}, s)"]
    offset = {} if zero is None else {"z": zero}
    return model(" ".join(nodes), **{"s": 0.25, "lo": low, "hi": high} | offset | constants)


@pytest.mark.parametrize(
    ("low", "high", "kind", "narrow"),
    [
        (-128, 127, "INT8", False),
        (-127, 127, "INT8", True),
        (0, 255, "UINT8", False),
        (-8, 7, "INT4", False),
        (-7, 7, "INT4", True),
        (0, 15, "UINT4", False),
        (-32768, 32767, "INT16", False),
        (0, 65535, "UINT16", False),
    ],
)
def test_the_range_of_codes_is_that_of_a_format(low: int, high: int, kind: str, narrow: bool, tmp_path):
    before = pair_with(low, high)
    after, done = normalized(before)

    names = ["Max"] * narrow + ["QuantizeLinear", "DequantizeLinear"]
    assert [node.op_type for node in after.proto.graph.node] == names
    (quantize,) = [node for node in after.proto.graph.node if node.op_type == "QuantizeLinear"]
    types = {tensor.name: tensor.data_type for tensor in after.proto.graph.initializer}
    assert types[quantize.input[2]] == TensorProto.DataType.Value(kind)
    assert done.changes[0].description == (
        f"writes Round and its neighbors as a Q/DQ pair of {kind.lower()} with scale 0.25"
    )
    proto = stored(after, tmp_path)
    feeds = {"x": np.float32(0.25 * np.linspace(low - 3, high + 3, 24)).reshape(2, 3, 4)}
    assert np.array_equal(run(proto, feeds)[0], run(before.proto, feeds)[0])


@pytest.mark.parametrize(
    ("low", "high"),
    [(-128, 128), (-129, 127), (-127, 128), (0, 256), (1, 255), (-8, 8), (-9, 7), (-7, 8), (0, 16), (0, 127)],
)
def test_other_ranges_are_no_codes(low: int, high: int):
    assert not normalized(pair_with(low, high))[1].changes


@pytest.mark.parametrize("zero", [0, 1, 127, 255])
def test_a_zero_point_is_stored_as_a_code(zero: int, tmp_path):
    before = pair_with(0, 255, zero)
    after, done = normalized(before)
    proto = stored(after, tmp_path)

    assert done.outputs[0].equal
    for op_type in ("QuantizeLinear", "DequantizeLinear"):
        scale, found = constants_of(proto, op_type)
        assert (scale.dtype, scale.tolist()) == (np.float32, 0.25)
        assert (found.dtype, found.tolist()) == (np.uint8, zero)


@pytest.mark.parametrize("zero", [-1, 256, 300, 127.5])
def test_what_is_no_code_is_no_zero_point(zero: float):
    given = pair_with(0, 255, zero)

    after, done = normalized(given)
    assert not done.changes
    assert after.proto == given.proto


CODES = {"s": 0.25, "lo": 0, "hi": 255}


@pytest.mark.parametrize(
    ("nodes", "constants", "becomes"),
    [
        pytest.param(MUL, {"i": 4}, True, id="reciprocal"),
        pytest.param(
            "a = Mul (i, x) b = Round (a) c = Clip (b, lo, hi) y = Mul (s, c)", {"i": 4}, True, id="turned round"
        ),
        pytest.param(
            "a = Div (s, x) b = Round (a) c = Clip (b, lo, hi) y = Mul (c, s)", {}, False, id="divides the scale"
        ),
        pytest.param(MUL, {"i": 4.001}, False, id="not quite"),
        pytest.param(MUL, {"i": 4.00001}, True, id="rounded"),
        pytest.param(MUL, {"i": -4, "s": -0.25}, False, id="negative"),
        pytest.param(PLAIN, {"s": -0.25}, False, id="negative scale"),
        pytest.param(PLAIN, {"s": 0}, False, id="zero scale"),
        pytest.param(
            "a = Div (x, s) b = Round (a) m = Add (b, z) c = Clip (m, lo, hi) y = Mul (c, s)",
            {"z": 3},
            False,
            id="no Sub",
        ),
        pytest.param(
            "a = Div (x, s) b = Round (a) c = Clip (b, lo, hi) d = Sub (c, z) y = Mul (d, s)",
            {"z": 3},
            False,
            id="no Add",
        ),
        pytest.param(
            "a = Div (x, s) b = Round (a) m = Add (b, z) c = Clip (m, lo, hi) y = Mul (c, s)",
            {"z": 0},
            True,
            id="adds 0",
        ),
        pytest.param(
            "a = Div (x, s) b = Round (a) c = Clip (b, lo, hi) d = Sub (c, z) y = Mul (d, s)",
            {"z": 0},
            True,
            id="subtracts 0",
        ),
        pytest.param(
            "a = Div (x, s) b = Round (a) m = Add (b, z) c = Clip (m, lo, hi) d = Sub (c, v) y = Mul (d, s)",
            {"z": 3, "v": 4},
            False,
            id="two zero points",
        ),
        pytest.param(
            "a = Div (x, s) b = Round (a) m = Add (z, b) c = Clip (m, lo, hi) d = Sub (z, c) y = Mul (d, s)",
            {"z": 3},
            False,
            id="subtracts the codes",
        ),
        pytest.param(
            "a = Div (x, s) b = Round (a) c = Clip (b, lo, x) y = Mul (c, s)", {}, False, id="a bound is computed"
        ),
        pytest.param("a = Div (x, s) b = Round (a) c = Clip (b, lo) y = Mul (c, s)", {}, False, id="no upper bound"),
        pytest.param("a = Div (x, s) b = Round (a) c = Relu (b) y = Mul (c, s)", {}, False, id="no Clip"),
        pytest.param("a = Div (x, s) b = Round (a) c = Clip (b, lo, hi) y = Add (c, s)", {}, False, id="no Mul"),
        pytest.param("a = Add (x, s) b = Round (a) c = Clip (b, lo, hi) y = Mul (c, s)", {}, False, id="no Div"),
        pytest.param("b = Round (x) c = Clip (b, lo, hi) y = Mul (c, s)", {}, False, id="nothing scaled"),
        pytest.param("a = Mul (x, x) b = Round (a) c = Clip (b, lo, hi) y = Mul (c, s)", {}, False, id="no constant"),
        pytest.param(
            "a = Mul (s, s) b = Round (a) c = Clip (b, lo, hi) y = Mul (c, x)", {}, False, id="constants only"
        ),
        pytest.param(CAST.format(2, 1), {}, True, id="casts to uint8"),
        pytest.param(CAST.format(6, 1), {}, True, id="casts to int32"),
        pytest.param(CAST.format(7, 1), {}, False, id="casts to int64"),
        pytest.param(
            "a = Div (x, s) b = Round (a) c = Clip (b, lo, hi) k = Cast <to = 2> (c) f = Cast <to = 11> (k)"
            " e = Cast <to = 1> (f) y = Mul (e, s)",
            {},
            False,
            id="casts back to double",
        ),
        pytest.param(f"{PLAIN} other = Neg (a)", {}, False, id="the quotient is read"),
        pytest.param(f"{PLAIN} other = Neg (b)", {}, False, id="Round is read"),
        pytest.param(f"{PLAIN} other = Neg (y)", {}, True, id="the result is read"),
    ],
)
def test_the_operators_of_a_pair_are_told_from_others(nodes: str, constants: dict[str, object], becomes: bool):
    given = model(nodes, **CODES | constants)
    after, done = normalized(given)

    assert bool(done.changes) == becomes
    if becomes:
        assert [node.op_type for node in after.proto.graph.node][:2] == ["QuantizeLinear", "DequantizeLinear"]
    else:
        assert after.proto == given.proto


@pytest.mark.parametrize("name", ["a", "b", "c"])
def test_what_is_an_output_stays(name: str):
    given = model(PLAIN, **CODES)
    given.proto.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3, 4]))

    assert not normalized(given)[1].changes


def test_the_data_has_to_be_float32():
    given = model(PLAIN, s=np.float16(0.25), lo=np.float16(0), hi=np.float16(255))
    for value in (given.proto.graph.input[0], given.proto.graph.output[0]):
        value.type.tensor_type.elem_type = TensorProto.FLOAT16

    _, done = normalized(given)
    assert [refused.reason for refused in done.refused] == [
        "opset 21 has no pair with these codes and scales, or the data is not float32"
    ]


COLUMN, ROW = np.float32([[0.25], [0.5], [2]]), np.float32([0.25, 0.5, 2])


@pytest.mark.parametrize(
    ("scale", "axis"),
    [
        (COLUMN, 1),
        (COLUMN[None], 1),
        (ROW, 2),
        (COLUMN[..., None], 0),
        (np.float32([[0.25]]), None),
        (np.float32(0.25).reshape(1, 1, 1), None),
    ],
)
def test_a_scale_is_stored_for_the_axis_along_which_it_is_broadcast(scale: np.ndarray, axis: int | None, tmp_path):
    zero = np.arange(1, scale.size + 1, dtype=np.float32).reshape(scale.shape)
    before = pair_with(0, 255, shape="3,3,3", s=scale, zero=zero)
    after, done = normalized(before)
    proto = stored(after, tmp_path)

    assert done.changes
    assert done.outputs[0].equal
    found, zeros = constants_of(proto, "DequantizeLinear")
    assert found.shape == zeros.shape == (() if axis is None else (3,))
    assert found.reshape(-1).tolist() == scale.reshape(-1).tolist()
    assert zeros.reshape(-1).tolist() == zero.reshape(-1).tolist()
    axes = [[attribute.i for attribute in node.attribute] for node in proto.graph.node]
    assert axes == [[] if axis is None else [axis]] * 2
    feeds = {"x": np.arange(-60, 480, 20, dtype=np.float32).reshape(3, 3, 3) / 8}
    assert np.array_equal(run(proto, feeds)[0], run(before.proto, feeds)[0])
    shown = "scale 0.25" if axis is None else "scale 3 scales"
    assert done.changes[0].description.endswith(shown)


@pytest.mark.parametrize(
    ("nodes", "constants"),
    [
        pytest.param(
            "a = Div (x, s) b = Round (a) c = Clip (b, lo, hi) y = Mul (c, t)", {"s": COLUMN, "t": ROW}, id="scales"
        ),
        pytest.param(SHIFTED, {"s": COLUMN, "z": np.float32([1, 2, 3])}, id="zero points"),
        pytest.param(
            "a = Div (x, s) b = Round (a) m = Add (b, z) c = Clip (m, lo, hi) d = Sub (c, v) y = Mul (d, s)",
            {"s": COLUMN, "z": np.float32([[1], [2], [3]]), "v": np.float32([1, 2, 3])},
            id="one of two zero points",
        ),
        pytest.param(SHIFTED, {"z": np.float32([1, 2, 3])}, id="zero points for one scale"),
        pytest.param(PLAIN, {"s": np.full((3, 3), 0.5, np.float32)}, id="two axes"),
        pytest.param(
            "r = Reshape (x, flat) a = Div (r, s) b = Round (a) c = Clip (b, lo, hi) w = Mul (c, s)"
            " y = Reshape (w, cube)",
            {"s": np.float32([[0.5]]), "flat": np.array([27]), "cube": np.array([3, 3, 3])},
            id="a higher rank",
        ),
        pytest.param(
            "r = Reshape (x, flat) a = Div (r, s) b = Round (a) c = Clip (b, lo, hi) w = Mul (c, s)"
            " g = ReduceMax <keepdims = 0> (w, none) y = Add (x, g)",
            {"s": ROW, "flat": np.array([27, 1]), "none": np.array([1])},
            id="the data is broadcast",
        ),
    ],
)
def test_constants_along_several_axes_are_no_pair(nodes: str, constants: dict[str, object]):
    given = model(nodes, shape="3,3,3", **CODES | constants)

    assert not normalized(given)[1].changes


def test_a_narrow_range_needs_a_float32_scale():
    given = pair_with(-127, 127, s=np.array(0.5, np.float16))
    context = RuleContext(given)

    (proposal,) = find(context, "decomposed")
    with pytest.raises(UnfitError, match=r"^the codes exclude the lowest int8 code"):
        proposal.fixes[0].write(Draft(context, Namer(context.view)))


def test_a_narrow_range_for_each_channel_stays():
    given = pair_with(-127, 127, s=COLUMN)

    _, done = normalized(given)
    assert not done.changes
    assert [refused.reason for refused in done.refused if refused.code == "decomposed"] == [
        "the codes exclude the lowest int8 code, which needs one float32 scale"
    ]


@pytest.mark.parametrize(
    ("opset", "constants", "changes"),
    [
        (13, {}, True),
        (12, {}, True),
        (12, {"s": COLUMN}, False),
        (13, {"s": COLUMN}, True),
        (20, {"hi": 15}, False),
        (21, {"hi": 15}, True),
    ],
)
def test_the_opset_has_to_have_the_pair(opset: int, constants: dict[str, object], changes: bool):
    _, done = normalized(model(PLAIN, opset=opset, **CODES | constants))

    assert bool(done.changes) == changes
    reasons = [] if changes else [f"opset {opset} has no pair with these codes and scales, or the data is not float32"]
    assert [refused.reason for refused in done.refused if refused.code == "decomposed"] == reasons
