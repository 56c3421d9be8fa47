"""Models with other types at their inputs and outputs, against the given model with inputs and outputs cast by hand."""

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import parser
from onnx.reference import ReferenceEvaluator
from support.small import run

from qdqtool.models.graph.model import Model
from qdqtool.models.options import IoTypes
from qdqtool.models.transforms.io_types import InterfaceChange, with_io_types

Arrays = dict[str, NDArray[Any]]

FLOATS = {IoTypes.FP16: np.float16, IoTypes.BF16: ml_dtypes.bfloat16, IoTypes.FP32: np.float32}
EXACT = np.float32([-2, -0.5, 0.25, 3])
"""Values that every float type holds."""

CASTS = {
    "none": "(float[4] x) => (float[4] y) { y = Neg (x) }",
    "half inside": "(float[4] x) => (float[4] y) { a = Cast<to = 10>(x) b = Neg (a) y = Cast<to = 1>(b) }",
    "half outside": "(float16[4] x) => (float16[4] y) { a = Cast<to = 1>(x) b = Neg (a) y = Cast<to = 10>(b) }",
    "several readers": """(float[4] x) => (float[4] y, float[4] z) {
        a = Cast<to = 10>(x) b = Cast<to = 10>(x) c = Mul (a, b) y = Cast<to = 1>(c) d = Abs (c) e = Cast<to = 1>(d)
        z = Add (e, x) }""",
    "output read inside": """(float[4] x) => (float[4] y, float[4] z) {
        a = Cast<to = 10>(x) b = Neg (a) y = Cast<to = 1>(b) z = Abs (y) }""",
    "one tensor returned twice": """(float[4] x) => (float[4] y, float[4] z, float16[4] h) {
        h = Cast<to = 10>(x) g = Neg (h) y = Cast<to = 1>(g) z = Cast<to = 1>(g) }""",
    "returned half read again": """(float[4] x) => (float16[4] h, float[4] y) {
        a = Neg (x) h = Cast<to = 10>(a) y = Cast<to = 1>(h) }""",
    "only casts": "(float[4] x) => (float[4] y) { a = Cast<to = 10>(x) y = Cast<to = 1>(a) }",
    "returned input": "(float[4] x) => (float[4] x, float[4] y) { y = Neg (x) }",
    "several outputs": "(float[4] x) => (float[2] y, float[2] z) { y, a = Split<num_outputs = 2>(x) z = Neg (a) }",
    "bodies": """(float[4] x, bool c) => (float[4] y) { y = If (c) <
        then_branch = t () => (float[4] p) { h = Cast<to = 10>(x) n = Neg (h) p = Cast<to = 1>(n) },
        else_branch = e () => (float[4] q) { q = Abs (x) } > }""",
    "returned by a body": """(float[4] x, bool c) => (float16[4] y) { y = If (c) <
        then_branch = t () => (float16[4] p) { p = Cast<to = 10>(x) },
        else_branch = e () => (float16[4] q) { h = Abs (x) q = Cast<to = 10>(h) } > }""",
    "no float": "(int64[4] i, float[4] x) => (int64[4] j, float[4] y) { j = Neg (i) y = Abs (x) }",
}


def model_of(graph: str, opset: int = 21) -> Model:
    return Model(parser.parse_model(f'<ir_version: 10, opset_import: ["": {opset}]> g {graph}'))


def feeds_of(proto: onnx.ModelProto) -> Arrays:
    given: Arrays = {}
    for value in proto.graph.input:
        dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        given[value.name] = np.array(True) if dtype.kind == "b" else EXACT.astype(dtype)
    return given


def evaluate(proto: onnx.ModelProto, feeds: Arrays) -> Arrays:
    """By ONNX Runtime; by onnx's evaluator where an input or output is bfloat16, which Python cannot give it."""
    values = (*proto.graph.input, *proto.graph.output)
    runtime = all(value.type.tensor_type.elem_type != onnx.TensorProto.BFLOAT16 for value in values)
    found = run(proto, feeds) if runtime else ReferenceEvaluator(proto).run(None, feeds)
    return {value.name: array for value, array in zip(proto.graph.output, found, strict=True)}


def require_valid(proto: onnx.ModelProto) -> None:
    onnx.checker.check_model(proto, full_check=True)
    onnx.shape_inference.infer_shapes(proto, check_type=True, strict_mode=True)


def types_of(proto: onnx.ModelProto) -> dict[str, np.dtype[Any]]:
    values = (*proto.graph.input, *proto.graph.output)
    return {each.name: onnx.helper.tensor_dtype_to_np_dtype(each.type.tensor_type.elem_type) for each in values}


@pytest.mark.parametrize(("graph", "wanted"), list(itertools.product(CASTS, FLOATS)))
def test_results_are_those_of_casting_by_hand(graph: str, wanted: IoTypes) -> None:
    model = model_of(CASTS[graph])
    before, given = model.proto.SerializeToString(), feeds_of(model.proto)
    done = with_io_types(model, wanted)
    types = types_of(done.model.proto)

    require_valid(done.model.proto)
    assert model.proto.SerializeToString() == before
    assert all(dtype == FLOATS[wanted] for name, dtype in types.items() if name not in "cij")
    changed = {change.tensor for change in done.report}
    assert changed == {name for name, dtype in types.items() if dtype != types_of(model.proto)[name]}
    found = evaluate(done.model.proto, {name: array.astype(types[name]) for name, array in given.items()})
    for name, expected in evaluate(model.proto, given).items():
        np.testing.assert_array_equal(found[name], expected.astype(types[name]))


@pytest.mark.parametrize("graph", ["half inside", "several readers", "bodies"])
def test_superfluous_casts_go_away(graph: str) -> None:
    written = with_io_types(model_of(CASTS[graph]), IoTypes.FP16).model.proto
    nodes = list(written.graph.node)
    for node in written.graph.node:
        nodes += [inner for attribute in node.attribute for inner in attribute.g.node]
    kept = {"half inside": 0, "several readers": 3, "bodies": 3}
    assert sum(node.op_type == "Cast" for node in nodes) == kept[graph]


def test_keep_and_types_that_a_model_has_change_nothing() -> None:
    model = model_of(CASTS["none"])
    for wanted in (IoTypes.KEEP, IoTypes.FP32):
        done = with_io_types(model, wanted)
        assert done.model is model
        assert done.report == ()


def test_a_weight_that_is_also_an_input_keeps_its_type() -> None:
    model = model_of(
        "(float[4] x, float[4] w) => (float[4] y, float[4] w) <float[4] w = {1, 2, 3, 4}> { y = Mul (x, w) }"
    )
    done = with_io_types(model, IoTypes.FP16)
    require_valid(done.model.proto)
    assert types_of(done.model.proto) == {"x": np.float16, "w": np.float32, "y": np.float16}
    assert [str(change) for change in done.report] == [
        "input 'x' is float16 instead of float32",
        "output 'y' is float16 instead of float32",
        "output 'w' stays float32: it is a constant, or an input with a default value",
    ]


def test_bfloat16_raises_the_opset() -> None:
    done = with_io_types(model_of("(float[4] x) => (float[4] y) { y = Relu (x) }", opset=11), IoTypes.BF16)
    require_valid(done.model.proto)
    assert done.model.default_opset() == 13


PAIR = "s = Constant<value_float = 0.25>() z = Constant<value = int8 {3}>()"
CODES = {
    "pair": f"(float[4] x) => (float[4] y) {{ {PAIR} q = QuantizeLinear (x, s, z) y = DequantizeLinear (q, s, z) }}",
    "nodes between": f"""(float[4] x) => (float[4] y) {{ {PAIR} q = QuantizeLinear (x, s, z)
        d = DequantizeLinear (q, s, z) a = Neg (d) r = QuantizeLinear (a, s, z) y = DequantizeLinear (r, s, z) }}""",
    "two readers": f"""(float[4] x) => (float[4] y, float[4] w) {{ {PAIR} q = QuantizeLinear (x, s, z)
        p = QuantizeLinear (x, s, z) d = DequantizeLinear (q, s, z) e = DequantizeLinear (p, s, z) a = Mul (d, e)
        r = QuantizeLinear (a, s, z) y = DequantizeLinear (r, s, z) w = Abs (y) }}""",
    "codes returned twice": f"""(float[4] x) => (float[4] y, float[4] w, int8[4] r) {{ {PAIR}
        q = QuantizeLinear (x, s, z) d = DequantizeLinear (q, s, z) a = Neg (d) r = QuantizeLinear (a, s, z)
        y = DequantizeLinear (r, s, z) w = DequantizeLinear (r, s, z) }}""",
    "codes returned by two pairs": f"""(float[4] x) => (float[4] y, float[4] w) {{ {PAIR}
        q = QuantizeLinear (x, s, z) y = DequantizeLinear (q, s, z) a = Neg (y) r = QuantizeLinear (a, s, z)
        v = DequantizeLinear (r, s, z) w = DequantizeLinear (r, s, z) b = Abs (v) }}""",
    "body": f"""(float[4] x, bool c) => (float[4] y) {{ {PAIR} y = If (c) <
        then_branch = t () => (float[4] p) {{ q = QuantizeLinear (x, s, z) p = DequantizeLinear (q, s, z) }},
        else_branch = e () => (float[4] o) {{ k = QuantizeLinear (x, s, z) o = DequantizeLinear (k, s, z) }} > }}""",
    "channels": """(float[1,4] x) => (float[1,4] y) <float[4] s = {0.5, 0.25, 1, 2}, uint8[4] z = {1, 2, 3, 4}> {
        q = QuantizeLinear<axis = -1>(x, s, z) y = DequantizeLinear<axis = 1>(q, s, z) }""",
}


def encode(array: NDArray[Any], change: InterfaceChange) -> NDArray[Any]:
    """The codes by ONNX's formula."""
    limits = np.iinfo(change.after)
    codes = np.rint(array / np.float32(change.scale)) + np.float32(change.zero_point)
    return np.clip(codes, limits.min, limits.max).astype(change.after)


def decode(codes: NDArray[Any], change: InterfaceChange) -> NDArray[Any]:
    zero_point = np.int32(change.zero_point)
    return np.float32(codes.astype(np.int32) - zero_point) * np.float32(change.scale)


@pytest.mark.parametrize("graph", CODES)
def test_the_application_feeds_and_receives_codes(graph: str) -> None:
    model = model_of(CODES[graph])
    given = feeds_of(model.proto)
    if graph == "channels":
        given = {"x": EXACT[None]}
    done = with_io_types(model, IoTypes.QUANTIZED)
    require_valid(done.model.proto)
    assert all(node.op_type != "QuantizeLinear" or "x" not in node.input for node in done.model.proto.graph.node)

    changes = {change.tensor: change for change in done.report if not change.reason}
    assert types_of(done.model.proto)["x"] == changes["x"].after
    fed = {name: encode(array, changes[name]) if name in changes else array for name, array in given.items()}
    found = evaluate(done.model.proto, fed)
    for name, expected in evaluate(model.proto, given).items():
        result = decode(found[name], changes[name]) if name in changes else found[name]
        np.testing.assert_array_equal(result, expected)


def test_the_report_describes_codes() -> None:
    done = with_io_types(model_of(CODES["pair"]), IoTypes.QUANTIZED)
    fed, received = map(str, done.report)
    rounded = "the application feeds round(x / 0.25) + 3, half to even and saturated"
    assert fed == f"input 'x' has int8 codes instead of float32: {rounded}"
    assert received == "output 'y' has int8 codes instead of float32: the application computes (code - 3) * 0.25"
    without_zero_point = with_io_types(model_of(CODES["pair"].replace("{3}", "{0}")), IoTypes.QUANTIZED)
    assert [str(change).partition("application ")[2] for change in without_zero_point.report] == [
        "feeds round(x / 0.25), half to even and saturated",
        "computes code * 0.25",
    ]
    by_channel = with_io_types(model_of(CODES["channels"]), IoTypes.QUANTIZED).report[0]
    assert (by_channel.scale, by_channel.zero_point, by_channel.axis) == ((0.5, 0.25, 1.0, 2.0), (1, 2, 3, 4), 1)
    assert "round(x / the scale of axis 1) + the zero point of axis 1" in str(by_channel)


def test_scales_that_nothing_reads_any_more_are_removed() -> None:
    done = with_io_types(model_of(CODES["pair"]), IoTypes.QUANTIZED)
    assert [node.op_type for node in done.model.proto.graph.node] == ["Identity"]


Q = "q = QuantizeLinear (x, s, z)"
WITHOUT_CODES = {
    f"(float[4] x) => (float[4] y) {{ {PAIR} {Q} d = DequantizeLinear (q, s, z) [add] y = Add (d, x) }}": [
        "Add 'add' reads it and does not quantize it",
        "Add 'add' makes it and does not dequantize it",
    ],
    f"(float[4] x) => (float[4] x, int8[4] q) {{ {PAIR} {Q} }}": ["the model returns it too", "no node makes it"],
    f"(float[4] x) => (int8[4] q, int8[4] p) {{ {PAIR} {Q} a = Add (s, s) p = QuantizeLinear (x, a, z) }}": [
        "its QuantizeLinear nodes have different types, scales or zero points"
    ],
    "(float[4] x, float s) => (uint8[4] q) { [quant] q = QuantizeLinear (x, s) }": [
        "the codes of 'quant' are not of 8 bits, or their scale is computed or has blocks",
        "QuantizeLinear 'quant' reads it and does not quantize it",
    ],
    "(float[4] x, float[4] u) => (float[4] y) { [neg] y = Neg (x) }": [
        "Neg 'neg' reads it and does not quantize it",
        "no node reads it",
        "Neg 'neg' makes it and does not dequantize it",
    ],
}


@pytest.mark.parametrize("graph", WITHOUT_CODES)
def test_what_cannot_be_codes_says_why(graph: str) -> None:
    model = model_of(graph)
    done = with_io_types(model, IoTypes.QUANTIZED)
    assert done.model is model
    assert [change.reason for change in done.report] == WITHOUT_CODES[graph]
    for change in done.report:
        assert change.before == change.after == "float32"
        assert str(change) == f"{change.kind} '{change.tensor}' stays float32: {change.reason}"
