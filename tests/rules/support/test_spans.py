"""Every value that ONNX Runtime computes lies in the span that is predicted without data."""

from collections.abc import Mapping

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto as T
from support.corpus._case import graph_model, node, tensor

from qdqtool.graph.model import Model
from qdqtool.ops import Span
from qdqtool.rules import RuleContext
from qdqtool.rules.support import stored_values
from qdqtool.rules.support.spans import Spans

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
    monkeypatch.setattr(stored_values, "MOST_READ", 10)
    spans = Spans(context := RuleContext(Model(network())))

    assert spans.of(context.view.scopes[0].values["xd"]) is not None
    assert spans.of(context.view.scopes[0].values["a"]) is None


def spans_of(nodes: list[onnx.NodeProto], *names: str) -> list[Span | None]:
    """The spans of tensors behind a pair from -1.28 to 1.27."""
    pair = [node("QuantizeLinear", ["x", "s", "z"], "q"), node("DequantizeLinear", ["q", "s", "z"], "d")]
    stored = [tensor("s", 0.01), tensor("z", 0, T.INT8), tensor("bad", [[np.inf, -np.inf], [np.nan, 1]])]
    model = graph_model([*pair, *nodes], [("x", T.FLOAT, [1, 2])], [(names[-1], T.FLOAT, None)], stored)
    spans = Spans(context := RuleContext(Model(model)))
    return [spans.of(context.view.scopes[0].values[name]) for name in names]


@pytest.mark.parametrize(
    "broken",
    [
        node("Add", ["d"], "y"),
        node("Add", ["d", "d", "d"], "y"),
        node("Relu", [], "y"),
        node("Relu", ["y"], "y"),
        node("Add", ["d", "y"], "y"),
        node("Conv", ["d", "y"], "y"),
        node("MatMul", ["d"], "y"),
        node("MatMul", ["d", "nowhere"], "y"),
        node("BatchNormalization", ["d"], "y"),
    ],
)
def test_of_a_damaged_node_nothing_is_known(broken: onnx.NodeProto):
    assert spans_of([broken], "y") == [None]


@pytest.mark.filterwarnings("error")
def test_of_a_product_with_weights_that_are_not_finite_nothing_is_known():
    assert spans_of([node("MatMul", ["d", "bad"], "y")], "y") == [None]


@pytest.mark.parametrize("backwards", [False, True])
def test_a_chain_of_any_length_is_followed_without_recursion(backwards: bool):
    nodes = [node("Relu", [f"t{index}" if index else "d"], f"t{index + 1}") for index in range(20_000)]

    found = spans_of(nodes[::-1] if backwards else nodes, "t1", "t20000")

    # Nodes in another order than that of the data are a finding of their own (QM617), and not followed.
    assert [span and (span.low, round(span.high, 4)) for span in found] == [None if backwards else (0, 1.27)] * 2
