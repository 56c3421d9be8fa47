"""Every value that ONNX Runtime computes lies in the span that is predicted without data."""

import itertools
import math
from collections.abc import Mapping

import numpy as np
import onnx
import onnx.parser
import onnxruntime as ort
import pytest
from onnx import TensorProto as T
from support.corpus._case import graph_model, node, tensor
from support.small import run

from qdqtool.linting.rules import RuleContext
from qdqtool.linting.rules.support.spans import Spans
from qdqtool.models.graph.model import Model
from qdqtool.models.ops import ChannelLayout, Span

RNG = np.random.default_rng(0)


def network(*, stored: bool = True) -> onnx.ModelProto:
    """Convolutions, with a bias or a normalization, a branch, pools, a product of matrices, of one group or several."""
    weight = RNG.normal(size=(6, 2, 3, 3)).astype(np.float32)
    codes = np.clip(np.rint(weight / 0.03), -127, 127)
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], "xq"),
        node("DequantizeLinear", ["xq", "s", "z"], "xd"),
        node("DequantizeLinear", ["w", "ws"], "wd") if stored else node("Identity", ["w"], "wd"),
        node("Conv", ["xd", "wd", "b"], "a", pads=[1, 1, 1, 1], group=2),
        node("BatchNormalization", ["a", "gamma", "beta", "mean", "variance"], "n"),
        node("Relu", ["n"], "r"),
        node("MaxPool", ["r"], "p", kernel_shape=[2, 2], strides=[2, 2]),
        node("Sigmoid", ["p"], "g"),
        node("Mul", ["p", "g"], "m"),
        node("Concat", ["m", "p"], "c", axis=1),
        node("ConvTranspose", ["c", "u"], "t", strides=[2, 2]),
        node("Clip", ["t", "low"], "k"),
        node("GlobalAveragePool", ["k"], "v"),
        node("Flatten", ["v"], "f"),
        node("Gemm", ["f", "h", "hb"], "e", alpha=0.5, beta=2.0, transB=1),
        node("Transpose", ["e"], "o", perm=[1, 0]),
        node("MatMul", ["e", "o"], "y"),
    ]
    constants = {
        "s": 0.02,
        "ws": 0.03,
        "b": RNG.normal(size=6) * 5,
        "gamma": RNG.normal(size=6),
        "beta": RNG.normal(size=6) * 3,
        "mean": RNG.normal(size=6),
        "variance": RNG.uniform(0.1, 2, 6),
        "u": RNG.normal(size=(12, 4, 2, 2)),
        "low": -0.7,
        "h": RNG.normal(size=(5, 4)),
        "hb": RNG.normal(size=5),
    }
    return graph_model(
        nodes,
        [("x", T.FLOAT, [1, 4, 8, 8])],
        [("y", T.FLOAT, [1, 1])],
        [
            tensor("z", 3, T.INT8),
            tensor("w", codes if stored else weight, T.INT8 if stored else T.FLOAT),
            *(tensor(name, values) for name, values in constants.items()),
        ],
        17 if not stored else 21,
    )


def seen(model: onnx.ModelProto) -> Mapping[str, list[np.ndarray]]:
    """The float tensors of a model on inputs of all sizes, the extremes among them."""
    inner = onnx.shape_inference.infer_shapes(model)
    names = [value.name for value in inner.graph.value_info if value.type.tensor_type.elem_type == T.FLOAT]
    model.graph.output.extend(value for value in inner.graph.value_info if value.name in names)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    found: dict[str, list[np.ndarray]] = {name: [] for name in names}
    for size in (0.01, 1, 3, 100):
        for _ in range(20):
            x = RNG.choice([-1, 1], (1, 4, 8, 8)) * size if size == 100 else RNG.normal(size=(1, 4, 8, 8)) * size
            for name, values in zip(names, session.run(names, {"x": x.astype(np.float32)}), strict=True):
                found[name].append(values)
    return found


@pytest.mark.parametrize("stored", [True, False])
def test_no_value_lies_outside_and_no_channel_is_wider(stored: bool):
    model = network(stored=stored)
    spans = Spans(context := RuleContext(Model(model)))
    outputs = seen(onnx.ModelProto.FromString(model.SerializeToString()))

    for name, runs in outputs.items():
        span = spans.of(context.view.scopes[0].values[name])
        assert span is not None, name
        values = np.stack(runs)
        slack = 1e-4 * (1 + span.most)
        assert span.low - slack <= values.min() <= values.max() <= span.high + slack, name
        axes = (0, *(axis for axis in range(1, values.ndim) if span.axis is None or axis != 2))
        kept = axes if span.axis is not None else None
        assert np.max(np.ptp(values, axis=kept)) <= span.width + slack, name
    known = [spans.of(context.view.scopes[0].values[name]).width for name in outputs]
    assert np.isfinite(known).all()


def test_channels_behind_a_bias_are_narrower_than_the_tensor():
    spans = Spans(context := RuleContext(Model(network())))
    span = spans.of(context.view.scopes[0].values["a"])

    assert span.width < span.high - span.low
    assert span.source.label.startswith("DequantizeLinear -> xd")


def test_of_large_constants_nothing_is_known(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("qdqtool.linting.rules.support.spans.MOST_READ", 10)
    spans = Spans(context := RuleContext(Model(network())))

    assert spans.of(context.view.scopes[0].values["xd"]) is not None
    assert spans.of(context.view.scopes[0].values["a"]) is None


def spans_of(nodes: list[onnx.NodeProto], *names: str) -> list[Span | None]:
    """The spans of tensors behind a pair from -1.28 to 1.27."""
    pair = [node("QuantizeLinear", ["x", "s", "z"], "q"), node("DequantizeLinear", ["q", "s", "z"], "d")]
    stored = [tensor("s", 0.01), tensor("z", 0, T.INT8), tensor("bad", [[np.inf, -np.inf], [np.nan, 1]])]
    stored += [tensor("two", [1.0, 2.0]), tensor("three", [1.0, 2.0, 3.0])]
    model = graph_model([*pair, *nodes], [("x", T.FLOAT, [1, 2])], [(names[-1], T.FLOAT, None)], stored)
    spans = Spans(context := RuleContext(Model(model)))
    return [spans.of(context.view.scopes[0].values[name]) for name in names]


@pytest.mark.parametrize(
    "broken",
    [
        node("Add", ["d"], "y"),
        node("Add", ["d", "d", "d"], "y"),
        node("Relu", [], "y"),
        node("LeakyRelu", ["y"], "y"),
        node("Add", ["d", "y"], "y"),
        node("Conv", ["d", "y"], "y"),
        node("MatMul", ["d"], "y"),
        node("MatMul", ["d", "nowhere"], "y"),
        node("BatchNormalization", ["d"], "y"),
        node("BatchNormalization", ["d", "two", "three", "two", "two"], "y"),
        node("BatchNormalization", ["d", "three", "two", "two", "two"], "y"),
        node("BatchNormalization", ["d", "two", "two", "two", "three"], "y"),
    ],
)
def test_of_a_damaged_node_nothing_is_known(broken: onnx.NodeProto):
    assert spans_of([broken], "y") == [None]


@pytest.mark.filterwarnings("error")
def test_of_a_product_with_weights_that_are_not_finite_nothing_is_known():
    assert spans_of([node("MatMul", ["d", "bad"], "y")], "y") == [None]


@pytest.mark.parametrize("backwards", [False, True])
def test_a_chain_of_any_length_is_followed_without_recursion(backwards: bool):
    nodes = [node("Relu", [f"t{index}" if index else "d"], f"t{index + 1}") for index in range(3_000)]

    found = spans_of(nodes[::-1] if backwards else nodes, "t1", "t3000")

    # Nodes in another order than that of the data are a finding of their own (QM617), and not followed.
    assert [span and (span.low, round(span.high, 4)) for span in found] == (
        [None, (0, math.inf)] if backwards else [(0, 1.27)] * 2
    )


HEADER = '<ir_version: 10, opset_import: ["": 21, "local": 1]>'
STORED = """
    float s = {0.5}, float[2] each = {0.5, 0.25}, float none = {0}, float less = {-0.5}, float[0] empty = {},
    uint8 z = {2}, uint8[2] zeros = {2, 2}, uint8[2] unlike = {2, 3}, int8 minus = {-3},
    int8[2,2] w = {1, -2, 3, 4}, float[2,2] f = {1, -2, 3, 4}, float[1,2,2] stack = {1, 2, 3, 4},
    float[2,0] nothing = {}, float[2,2,1,1] k = {1, 2, 3, 4}, float[2,1,1,2] g = {1, -2, 3, 4},
    float[2] b = {10, -10}, float[3] row = {1, 2, 4}, float[3,1] column = {1, 2, 4}, float[2] mean,
    int64[2] flat = {0, -1}, int64[3] other = {1, 2, 2}, float[4] sizes = {1, 1, 2, 2},
    float ratio = {0.5}, float five = {5}, float shift = {518.5}
"""
INPUTS = """
    uint8[3,2] u, int8[3,2] i, int32[3,2] sums, float[3,2] x, float step, uint8 zero, int4[3,2] n, int16[3,2] h,
    uint8[1,2,2,2] image, uint8[N,K] open, uint8[5,3,2] batch
"""


def span_of(body: str) -> Span | None:
    """The span of ``y``; ``d`` is a DQ from -1 to 126.5, and ``c`` a Conv with channels apart, by their biases."""
    sources = "d = DequantizeLinear (u, s, z) p = DequantizeLinear (image, s, z) c = Conv (p, k, b)"
    text = f"{HEADER} agraph ({INPUTS}) => (float o) <{STORED}> {{ {sources} {body} o = Cast <to = 1> (y) }}"
    context = RuleContext(Model(onnx.parser.parse_model(text)))
    return Spans(context).of(context.view.main.values["y"])


def ends(span: Span | None) -> tuple[float, float] | None:
    return None if span is None else (span.low, span.high)


@pytest.mark.parametrize(
    ("entry", "low_and_high"),
    [
        ("DequantizeLinear (u, s, z)", (-1, 126.5)),
        ("DequantizeLinear (u, s)", (0, 127.5)),
        ("DequantizeLinear (i, s)", (-64, 63.5)),
        ("DequantizeLinear (i, s, minus)", (-62.5, 65)),
        ("DequantizeLinear (n, s)", (-4, 3.5)),
        ("DequantizeLinear (h, s)", (-16384, 16383.5)),
        # The largest scale of several, and one zero point for all.
        ("DequantizeLinear <axis = 1> (u, each)", (0, 127.5)),
        ("DequantizeLinear <axis = 1> (u, each, zeros)", (-1, 126.5)),
        ("DequantizeLinear <axis = 1> (u, each, unlike)", None),
        ("DequantizeLinear (sums, s)", None),
        ("DequantizeLinear (u, step)", None),
        ("DequantizeLinear (u, s, zero)", None),
        ("DequantizeLinear (u, none)", None),
        ("DequantizeLinear (u, less)", None),
        ("DequantizeLinear (u, empty)", None),
        ("DequantizeLinear (u)", None),
        ("DequantizeLinear (x, s)", None),
        ("DequantizeLinear (nowhere, s)", None),
        ("DequantizeLinear ()", None),
        ("QuantizeLinear (x, s, z)", None),
        # A constant is known better than the range of its codes.
        ("DequantizeLinear (w, s)", (-1, 2)),
        ("QuantizeLinear (f, s)", (-2, 4)),
    ],
)
def test_a_pair_bounds_its_tensor(entry: str, low_and_high: tuple[float, float] | None):
    assert ends(span_of(f"y = {entry}")) == low_and_high


@pytest.mark.parametrize("scale", [math.inf, math.nan])
def test_a_scale_that_is_not_finite_bounds_nothing(scale: float):
    nodes = [node("DequantizeLinear", ["q", "s"], "y")]
    model = graph_model(nodes, [("q", T.INT8, [2])], [("y", T.FLOAT, [2])], [tensor("s", scale)])
    context = RuleContext(Model(model))

    assert Spans(context).of(context.view.main.values["y"]) is None
    assert Spans(context).of(None) is None


@pytest.mark.parametrize(
    ("body", "low_and_high"),
    [
        ("y = Relu (d)", (0, 126.5)),
        ("t = DequantizeLinear (w, s) y = Relu (t)", (0, 2)),
        ("t = DequantizeLinear (w, s) y = Add (d, t)", (-2, 128.5)),
        ("y = Cast <to = 10> (d)", (-1, 126.5)),
        ("y = Dropout (d, ratio)", (-1, 126.5)),
        ("y = Identity (d)", (-1, 126.5)),
        ("y = Transpose (d)", (-1, 126.5)),
        ("y = Reshape (d, flat)", (-1, 126.5)),
        ("y = ReduceMean (d)", (-1, 126.5)),
        ("a, y = Split <axis = 0, num_outputs = 2> (d)", (-1, 126.5)),
        ('y = Resize <mode = "nearest"> (p, , sizes)', (-1, 126.5)),
        ('y = Resize <mode = "linear"> (p, , sizes)', (-1, 126.5)),
        ('y = Resize <mode = "cubic"> (p, , sizes)', (-253, 253)),
        ("y = Exp (d)", None),
        ("y = LeakyRelu (x)", None),
        # An activation function limits values of which nothing is known.
        ("y = Relu (x)", (0, math.inf)),
        ("y = HardSwish (x)", (-0.3751, math.inf)),
        ("y = Tanh (x)", (-1, 1)),
        ("r = Relu (x) y = Tanh (r)", (0, 1)),
        ("r = Relu (x) n = Neg (r) y = Erf (n)", (-1, 0)),
        ("r = Relu (x) n = Neg (r) y = Sigmoid (n)", (0, 1)),
        # Indices and masks are no values.
        ("a, y = MaxPool <kernel_shape = [1, 1]> (p)", None),
        ("a, y = Dropout (d)", None),
        ("a, mean = BatchNormalization (d, b, b, b, each) y = Identity (mean)", None),
        (", y = Relu (d)", None),
        ("y = Relu (d, d)", None),
        ("y = Transpose ()", None),
        ("y = DequantizeLinear (y, s)", None),
    ],
)
def test_values_are_followed_through_operators(body: str, low_and_high: tuple[float, float] | None):
    assert ends(span_of(body)) == low_and_high


@pytest.mark.parametrize(("alpha", "low"), [("alpha = 0.5", -0.5), ("alpha: float = @slope", None)])
def test_an_attribute_of_the_caller_is_not_known(alpha: str, low: float | None):
    function = f"""<domain: "local", opset_import: ["": 21]> leaky <slope> (q) => (o) {{
        s = Constant <value = float {{0.5}}> () z = Constant <value = uint8 {{2}}> ()
        e = DequantizeLinear (q, s, z) o = LeakyRelu <{alpha}> (e)
    }}"""
    text = f"{HEADER} agraph (uint8[2] u) => (float[2] y) {{ y = local.leaky <slope = 0.5> (u) }} {function}"
    context = RuleContext(Model(onnx.parser.parse_model(text)))
    span = Spans(context).of(next(each for each in context.view.scopes if each.is_function).values["o"])

    assert (span and span.low) == low


@pytest.mark.parametrize(
    ("body", "width", "axis"),
    [
        ("y = Identity (c)", 7 * 127.5, ChannelLayout.FIRST),
        ("y = MaxPool <kernel_shape = [1, 1]> (c)", 7 * 127.5, ChannelLayout.FIRST),
        ("y = Flatten (c)", 7 * 127.5, ChannelLayout.LAST),
        ('y = Resize <mode = "nearest"> (c, , sizes)', 7 * 127.5, ChannelLayout.FIRST),
        ("y = Reshape (c, other)", None, None),
        ("y = Transpose (c)", None, None),
        ("y = ReduceMean (c)", None, None),
    ],
)
def test_channels_are_followed(body: str, width: float | None, axis: ChannelLayout | None):
    span = span_of(body)

    assert (span.low, span.high) == (-17, 7 * 126.5 + 10)
    assert (span.width, span.axis) == (width or span.high - span.low, axis)


def test_a_shape_that_cannot_be_read_hides_the_channels_only():
    body = "q = DequantizeLinear (u, s) a = Add (q, b) y = Reshape (a, flat)"
    model = onnx.parser.parse_model(f"{HEADER} agraph ({INPUTS}) => (float y) <{STORED}> {{ {body} }}")
    (shape,) = (each for each in model.graph.initializer if each.name == "flat")
    shape.CopyFrom(onnx.TensorProto(name="flat", data_type=T.INT64, dims=[2], raw_data=b"broken"))
    context = RuleContext(Model(model))

    span = Spans(context).of(context.view.main.values["y"])

    assert (span.low, span.high, span.width, span.axis) == (-10, 137.5, 147.5, None)


ROW, IMAGE = (2,), (2, 1, 2)
"""Shapes of one entry of a batch."""


@pytest.mark.parametrize(
    ("product", "shape"),
    [
        ("MatMul (x, f)", ROW),
        ("Gemm (x, f)", ROW),
        ("Gemm <transB = 1> (x, f)", ROW),
        ("Gemm <alpha = 0.5> (x, f)", ROW),
        ("Gemm <alpha = -2.0> (x, f)", ROW),
        ("Conv (x, k)", IMAGE),
        ("Conv <group = 2> (x, g)", IMAGE),
        ("ConvTranspose (x, k)", IMAGE),
        ("ConvTranspose <group = 2> (x, g)", IMAGE),
    ],
)
@pytest.mark.parametrize(
    ("source", "low", "high"),
    [
        ("x = DequantizeLinear (u, s, z)", -1, 126.5),
        ("x = DequantizeLinear (i, s)", -64, 63.5),
        ("r = DequantizeLinear (u, s) x = Add (r, five)", 5, 132.5),
        ("r = DequantizeLinear (u, s) x = Sub (r, shift)", -518.5, -391),
    ],
)
def test_a_product_with_a_stored_weight_reaches_the_ends_of_its_span(
    product: str, shape: tuple[int, ...], source: str, low: float, high: float
):
    """The extremes of a linear function are at the corners of the box of its inputs."""
    if len(shape) == 3:
        # A convolution reads zeros beyond the edge.
        low, high = min(low, 0), max(high, 0)
    corners = np.array([*itertools.product((low, high), repeat=math.prod(shape))], np.float32).reshape(-1, *shape)
    ranks = ",".join("N" * corners.ndim)
    text = f"{HEADER} agraph (float[{ranks}] x) => (float[{ranks}] y) <{STORED}> {{ y = {product} }}"
    (reached,) = run(onnx.parser.parse_model(text), {"x": corners})

    span = span_of(f"{source} y = {product}")

    assert (span.low, span.high) == (reached.min(), reached.max())
    by_channel = np.moveaxis(reached, 1, 0).reshape(reached.shape[1], -1)
    assert span.width == np.ptp(by_channel, axis=1).max()


PER_TERM = 126.5 * 4
"""The largest product of values of ``d`` and of ``e``."""


@pytest.mark.parametrize(
    ("product", "most", "source"),
    [
        ("MatMul (d, t)", 2 * PER_TERM, "d"),
        ("Gemm (d, t)", 2 * PER_TERM, "d"),
        ("Gemm <alpha = 0.5> (d, t)", PER_TERM, "d"),
        ("Gemm <transB = 1> (d, e)", 2 * PER_TERM, "d"),
        ("Gemm <transA = 1> (d, e)", None, None),
        ("MatMul (m, t)", 2 * PER_TERM, "m"),
        ("MatMul (d, stack)", 2 * PER_TERM, "d"),
        ("MatMul (f, t)", 2 * 4 * 4, "e"),
        ("MatMul (v, t)", None, None),
        ("MatMul (d, x)", None, None),
        ("MatMul (x, t)", None, None),
        ("MatMul (d, nothing)", None, None),
        ("Conv (p, p)", None, None),
        ('Einsum <equation = "ij,jk->ik"> (d, t)', None, None),
    ],
)
def test_of_a_product_of_two_activations_the_largest_magnitude_is_known(
    product: str, most: float | None, source: str | None
):
    span = span_of(
        "e = DequantizeLinear (n, s) t = Transpose (e) m = DequantizeLinear (batch, s, z)"
        f" v = DequantizeLinear (open, s, z) y = {product}"
    )

    if most is None:
        assert span is None
    else:
        assert (span.low, span.high, span.width, span.axis) == (-most, most, 2 * most, None)
        assert span.source.label == f"DequantizeLinear -> {source}"


@pytest.mark.parametrize(
    ("product", "added", "apart"),
    [
        # A number for each channel moves the channels apart, and makes none wider.
        ("Gemm (d, f, b)", (-10, 10), 0),
        ("Gemm <beta = 0.5> (d, f, b)", (-5, 5), 0),
        ("Gemm <beta = -1.0> (d, f, row)", (-4, -1), 0),
        ("Gemm (d, f, column)", (1, 4), 3),
        ("Gemm (d, f, none)", (0, 0), 0),
        ("Gemm (d, f, )", (0, 0), 0),
        ("Gemm (d, f, e)", (-4, 3.5), 7.5),
        ("Gemm (d, t, b)", (-10, 10), 0),
        ("Gemm <alpha = 1.0, beta = 2.0> (d, t, b)", (-20, 20), 0),
        ("Conv (p, k, b)", (-10, 10), 0),
        ("ConvTranspose (p, k, b)", (-10, 10), 0),
        ("Gemm (d, f, x)", None, None),
        ("Conv (p, k, x)", None, None),
    ],
)
def test_a_bias_is_added(product: str, added: tuple[float, float] | None, apart: float | None):
    sources = "e = DequantizeLinear (n, s) t = Transpose (e)"
    plain, span = span_of(f"{sources} y = {product.rpartition(',')[0]})"), span_of(f"{sources} y = {product}")

    if added is None:
        assert span is None
    else:
        assert (span.low - plain.low, span.high - plain.high, span.width - plain.width) == (*added, apart)
