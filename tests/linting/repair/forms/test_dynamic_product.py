"""Products of data that is quantized at run time become float products of the same codes, or stay as they are."""

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator
from support.small import run

from qdqtool.jobs.normalize import normalized_model
from qdqtool.linting.repair.forms import find
from qdqtool.linting.repair.report import Repaired
from qdqtool.linting.rules import Draft, RuleContext, UnfitError
from qdqtool.models.graph.edits.naming import Namer
from qdqtool.models.graph.io.save import save_model
from qdqtool.models.graph.model import Model
from qdqtool.samples.request import DataRequest

RNG = np.random.default_rng(11)
X = RNG.normal(size=(2, 5, 8)).astype(np.float32)
IMAGE = RNG.normal(size=(1, 3, 6, 6)).astype(np.float32)
BODY = """
    xq, xs, xz = DynamicQuantizeLinear (x)
    o = MatMulInteger (xq, w, xz, wz)
    c = Cast <to = 1> (o)
    s = Mul (xs, ws)
    y = Mul (c, s)"""


def model(body: str = BODY, shape: str = "2,5,8", opset: int = 17, **constants: object) -> Model:
    header = f'<ir_version: 8, opset_import: ["": {opset}, "com.microsoft": 1]>'
    proto = onnx.parser.parse_model(f"{header} g (float[{shape}] x) => (float[] y) {{ {body} }}")
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    codes = RNG.integers(-128, 128, (8, 4)).astype(np.int8)
    for name, value in ({"w": codes, "ws": np.float32(0.02), "wz": np.int8(0)} | constants).items():
        if value is not None:
            proto.graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
    return Model(proto)


def normalized(given: Model, tmp_path) -> tuple[onnx.ModelProto, Repaired]:
    done = normalized_model(given, DataRequest(samples=2))
    save_model(done.model, tmp_path / "m.onnx")
    return onnx.load(tmp_path / "m.onnx"), done.report


def kinds(proto: onnx.ModelProto) -> list[str]:
    return [f"{node.domain}{node.op_type}" for node in proto.graph.node]


def assert_near(proto: onnx.ModelProto, expected: np.ndarray, x: np.ndarray = X) -> None:
    (found,) = run(proto, {"x": x})
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def reals(codes: np.ndarray, scale: object, zero: object = 0) -> np.ndarray:
    return (codes.astype(np.float64) - zero) * np.asarray(scale, np.float64)


INT8 = RNG.integers(-128, 128, (8, 4)).astype(np.int8)
UINT8 = RNG.integers(0, 256, (8, 4)).astype(np.uint8)
SCALES = np.float32([0.1, 0.02, 0.3, 0.004])


@pytest.mark.parametrize(
    ("w", "ws", "wz"),
    [
        (INT8, np.float32(0.02), np.int8(0)),
        (INT8, np.float32([0.02]), np.int8([0])),
        (INT8, np.float32(0.02), None),
        (INT8, SCALES, np.zeros(4, np.int8)),
        (INT8, SCALES, np.int8(5)),
        (INT8, np.float32(0.02), np.int8([1, 2, 3, 4])),
        (UINT8, np.float32(0.02), np.uint8(128)),
        (UINT8, SCALES, np.uint8([127, 128, 0, 255])),
        (RNG.integers(-128, 128, (2, 8, 4)).astype(np.int8), SCALES, np.int8(0)),
        (RNG.integers(-128, 128, 8).astype(np.int8), np.float32(0.02), np.int8(3)),
    ],
)
@pytest.mark.parametrize("body", [BODY, BODY.replace("Mul (xs, ws)", "Mul (ws, xs)").replace("(c, s)", "(s, c)")])
def test_the_product_is_that_of_float_data_and_the_codes(w, ws, wz, body: str, tmp_path):
    given = model(body if wz is not None else body.replace(", wz)", ")"), w=w, ws=ws, wz=wz)
    proto, done = normalized(given, tmp_path)

    assert done.changes[0].code == "dynamic-product"
    assert done.changes[0].label == "unsafe"
    assert done.changes[0].description == "writes MatMulInteger as MatMul of float data and the dequantized weight"
    assert sorted(kinds(proto)) == ["DequantizeLinear", "MatMul"]
    weight = reals(w, ws, 0 if wz is None else wz.astype(np.float64))
    assert_near(proto, X.astype(np.float64) @ weight)
    # Rounding the data moves it by half a step, and the outputs by at most that much of every weight.
    step = (X.max() - X.min()) / 255
    bound = step * np.abs(weight).sum(axis=-2 if weight.ndim > 1 else 0).max()
    # MatMulInteger of ONNX Runtime saturates on processors without VNNI; onnx's reference is exact.
    exact = ReferenceEvaluator(given.proto).run(None, {"x": X})[0]
    assert np.abs(run(proto, {"x": X})[0] - exact).max() <= bound


@pytest.mark.parametrize(
    "scales",
    [
        "t = Mul (c, xs) y = Mul (t, ws)",
        "t = Mul (ws, c) y = Mul (xs, t)",
        "half = Constant <value_float = 0.5> () a = Mul (c, ws) b = Mul (a, half) y = Mul (b, xs)",
    ],
)
def test_the_scales_may_be_multiplied_one_after_the_other(scales: str, tmp_path):
    body = BODY[: BODY.index("s = Mul")] + scales
    proto, done = normalized(model(body, w=INT8), tmp_path)

    assert [change.code for change in done.changes] == ["dynamic-product"]
    assert_near(proto, X.astype(np.float64) @ reals(INT8, 0.01 if "half" in scales else 0.02))


def test_several_products_share_the_data_and_the_scales(tmp_path):
    body = (
        BODY.replace("y = Mul (c, s)", "a = Mul (c, s)")
        + """
    p = MatMulInteger (xq, v, xz, wz)
    d = Cast <to = 1> (p)
    b = Mul (d, s)
    y = Add (a, b)"""
    )
    other = RNG.integers(-128, 128, (8, 4)).astype(np.int8)
    proto, done = normalized(model(body, w=INT8, v=other), tmp_path)

    assert [change.code for change in done.changes] == ["dynamic-product"] * 2
    assert sorted(kinds(proto)) == ["Add", "DequantizeLinear", "DequantizeLinear", "MatMul", "MatMul"]
    assert_near(proto, X.astype(np.float64) @ (reals(INT8, 0.02) + reals(other, 0.02)))


CONV = BODY.replace("MatMulInteger (", "ConvInteger <pads = [1, 1, 1, 1], strides = [2, 2], group = 1> (")


@pytest.mark.parametrize("scale", [np.float32(0.02), SCALES.reshape(4, 1, 1), SCALES.reshape(1, 4, 1, 1)])
def test_a_convolution_keeps_its_attributes(scale, tmp_path):
    codes = RNG.integers(0, 256, (4, 3, 3, 3)).astype(np.uint8)
    given = model(CONV, "1,3,6,6", w=codes, ws=scale, wz=np.uint8(127))
    proto, done = normalized(given, tmp_path)

    assert done.changes[0].description == "writes ConvInteger as Conv of float data and the dequantized weight"
    assert sorted(kinds(proto)) == ["Conv", "DequantizeLinear"]
    weight = reals(codes, np.asarray(scale).reshape(-1, 1, 1, 1), 127)
    padded = np.pad(IMAGE.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))[:, :, ::2, ::2]
    assert_near(proto, np.einsum("nchwij,mcij->nmhw", windows, weight), IMAGE)


BIAS = np.float32([1, -2, 3, 4])


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    "call",
    [
        "y = com.microsoft.DynamicQuantizeMatMul (x, w, ws, wz{})",
        "xq, xs, xz = DynamicQuantizeLinear (x) y = com.microsoft.MatMulIntegerToFloat (xq, w, xs, ws, xz, wz{})",
    ],
)
def test_operators_of_onnx_runtime(call: str, bias: bool, tmp_path):
    given = model(call.format(", b" if bias else ""), w=INT8, b=BIAS if bias else None)
    proto, done = normalized(given, tmp_path)

    assert [(change.code, change.label) for change in done.changes] == [("dynamic-product", "unsafe")]
    assert sorted(kinds(proto)) == ["Add"] * bias + ["DequantizeLinear", "MatMul"]
    assert_near(proto, X.astype(np.float64) @ reals(INT8, 0.02) + (BIAS if bias else 0))


def test_a_pair_that_is_made_at_run_time_goes(tmp_path):
    body = "xq, xs, xz = DynamicQuantizeLinear (x) d = DequantizeLinear (xq, xs, xz) y = MatMul (d, v)"
    weight = RNG.normal(size=(8, 4)).astype(np.float32)
    proto, done = normalized(model(body, v=weight), tmp_path)

    assert [(change.code, change.label) for change in done.changes] == [("dynamic-pair", "unsafe")]
    assert kinds(proto) == ["MatMul"]
    assert_near(proto, X.astype(np.float64) @ weight)


def refusals(given: Model) -> list[str]:
    """Why each product stays as it is."""
    context, found = RuleContext(given), list[str]()
    for proposal in find(context, "dynamic-product"):
        with pytest.raises(UnfitError) as reason:
            proposal.fixes[0].write(Draft(context, Namer(context.view)))
        found.append(str(reason.value))
    return found


ZERO = "the scale or zero point of its data differs from that of the DynamicQuantizeLinear"
CHANNELS = "the scales or zero points of its weight must be one number, or one for each output channel"
FACTOR = "a Mul behind it multiplies by other values than the scales"
READ = "an inner tensor of the chain must have exactly one reader"
NO_MUL = "no Mul by the scales follows"
NO_CODES = "its weight is not stored as 8-bit codes"


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("xz, wz", "wz, wz", ZERO),
        ("(xq, w, xz, wz)", "(xq, w)", ZERO),
        ("(xq, w, xz", "(x, w, xz", "its data is not quantized at run time by DynamicQuantizeLinear"),
        ("(xq, w, xz", "(xq, missing, xz", NO_CODES),
        ("(xq, w, xz", "(xq, ws, xz", NO_CODES),
        ("xz, wz)", "xz, xz)", "the zero point of its weight is not constant"),
        ("Cast <to = 1>", "Cast <to = 10>", "no Cast to the type of the data follows"),
        ("c = Cast <to = 1> (o)", "c = Neg (o)", "no Cast to the type of the data follows"),
        ("y = Mul (c, s)", "y = Add (c, s)", NO_MUL),
        ("y = Mul (c, s)", "t = Mul (c, xs) y = Neg (t)", NO_MUL),
        ("y = Mul (c, s)", "n = Neg (c) m = Mul (c, s) y = Add (n, m)", READ),
        ("y = Mul (c, s)", "t = Mul (c, xs)", READ),
        ("y = Mul (c, s)", "y = Mul (c, c)", READ),
        ("Mul (xs, ws)", "Mul (xs, x)", FACTOR),
        ("Mul (xs, ws)", "Neg (xs)", FACTOR),
        ("Mul (xs, ws)", "Mul (xs, )", FACTOR),
    ],
)
def test_what_is_no_such_product_is_left_with_the_reason(old: str, new: str, reason: str):
    assert refusals(model(BODY.replace(old, new), w=INT8)) == [reason]


@pytest.mark.parametrize(
    ("constants", "reason"),
    [
        ({"ws": np.float32([[0.1, 0.02, 0.3, 0.004]])}, CHANNELS),
        ({"ws": np.float32([0.1, 0.02])}, CHANNELS),
        ({"ws": np.zeros(0, np.float32)}, CHANNELS),
        ({"wz": np.int8([1, 2])}, CHANNELS),
        ({"w": INT8.astype(np.int32)}, NO_CODES),
        ({"w": INT8[0], "ws": SCALES}, CHANNELS),
        ({"ws": np.float16(0.1)}, "the scale of its weight is not float32"),
    ],
)
def test_constants_that_no_dq_has_are_left(constants: dict[str, object], reason: str):
    assert refusals(model(**{"w": INT8, **constants})) == [reason]


def test_several_scales_need_an_opset_that_has_them():
    assert refusals(model(w=INT8, ws=SCALES, opset=12)) == ["opset 12 has no DQ with several scales"]


def test_a_recurrent_layer_is_left():
    body = "y = com.microsoft.DynamicQuantizeLSTM <hidden_size = 4> (x, w, w, , , , , , ws, wz, ws, wz)"
    reason = "no operator of ONNX reads its weights as they are stored: quantize the float model again"
    assert refusals(model(body)) == [reason]


def test_a_chain_that_ends_in_an_output_of_the_model_keeps_it():
    given = model(BODY.replace("(float[] y)", "(float[] y, int32[] o)"))
    given.proto.graph.output.append(onnx.ValueInfoProto(name="o"))
    assert refusals(given) == [READ]
