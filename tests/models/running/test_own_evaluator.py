"""Models that ONNX Runtime cannot run alone, divided: equal to onnx's evaluator, and to ONNX Runtime where it can."""

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from support.qdq import LOOP_AND_BRANCHES, constant, pair_model, text_model
from support.small import conv_model, run

from qdqtool.errors import CapabilityError, ModelError
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model
from qdqtool.models.running import own_evaluator
from qdqtool.models.running.ort_cpu import Session
from qdqtool.models.running.ort_errors import RunError
from qdqtool.models.running.own_evaluator import SplitSession, open_session, run_each
from qdqtool.models.running.own_support import EvaluatorSplit, plan_split

T = TensorProto
X = np.random.default_rng(4).normal(size=(4, 32)).astype(np.float32) * 2


def split_of(model: Model) -> EvaluatorSplit | None:
    return plan_split(ModelIndex.of(model))


def evaluate(model: Model, feeds: dict[str, np.ndarray], outputs: list[str] | None = None) -> dict[str, np.ndarray]:
    split = split_of(model)
    assert split is not None
    with open_session(model, split) as session:
        assert isinstance(session, SplitSession)
        first = session.run(feeds, outputs)
        second = session.run(feeds, outputs)
    assert all(first[name].tobytes() == second[name].tobytes() for name in first)
    return first


@pytest.mark.parametrize("values", [1, 1 << 40])
def test_runs_side_by_side_give_what_runs_one_by_one_give(monkeypatch, values):
    used = []
    monkeypatch.setattr(own_evaluator, "side_by_side", lambda work, items: map(work, used.append(1) or items))
    samples = [{"x": np.random.default_rng(seed).normal(size=(1, 3, 8, 8)).astype(np.float32)} for seed in range(6)]
    model = Model(conv_model())
    with open_session(model, None) as session:
        each = [session.run(sample, ["y"]) for sample in samples]
        found = list(run_each(session, samples, ["y"], values))
    assert [one["y"].tobytes() for one in found] == [one["y"].tobytes() for one in each]
    assert len({one["y"].tobytes() for one in each}) == 6
    assert bool(used) == (values == 1)


def stamp(model: Model, opset: int) -> Model:
    model.proto.opset_import[0].version = opset
    return model


TWO_LEVEL = """
<ir_version: 11, opset_import: ["": 24]>
g (float[4,32] x) => (float[4,8] y, float[4,8] r)
{
  xs = DequantizeLinear (xsq, g)
  q = QuantizeLinear <axis = 1, block_size = 16, output_dtype = 23> (x, xs)
  d = DequantizeLinear <axis = 1, block_size = 16> (q, xs)
  w = DequantizeLinear <axis = 0, block_size = 32, output_dtype = 1> (wq, ws)
  m = MatMul (d, w)
  r = Relu (m)
  mq = QuantizeLinear (r, ys, yz)
  y = DequantizeLinear (mq, ys, yz)
}
"""


def two_level_model() -> Model:
    rng = np.random.default_rng(9)
    return text_model(
        TWO_LEVEL,
        constant("xsq", rng.uniform(10, 300, (4, 2)), T.FLOAT8E4M3FN),
        constant("g", 0.003),
        constant("wq", rng.uniform(-6, 6, (32, 8)), T.FLOAT4E2M1),
        constant("ws", 2.0 ** rng.integers(-4, 2, (1, 8)), T.FLOAT8E8M0),
        constant("ys", 0.1),
        constant("yz", 0, T.INT8),
    )


def test_fp4_with_fp8_and_e8m0_scales_between_float_and_int8_nodes() -> None:
    model = two_level_model()
    split = split_of(model)
    assert split is not None
    assert {node.node.output().name for node in split.own.values()} == {"q", "d", "w"}
    actual = evaluate(model, {"x": X})
    expected = ReferenceEvaluator(model.proto).run(None, {"x": X})
    # sums of 32 products of float32 in another order
    np.testing.assert_allclose(actual["r"], expected[1], rtol=2e-6, atol=2e-6)
    codes = np.clip(np.rint(actual["r"] / np.float32(0.1)), -128, 127)
    assert np.array_equal(actual["y"], (codes * np.float32(0.1)).astype(np.float32))


def test_what_the_codes_are_is_what_onnx_says() -> None:
    model = two_level_model()
    for name in ("q", "d", "w"):
        model.proto.graph.output.append(onnx.ValueInfoProto(name=name))
    actual = evaluate(model, {"x": X})
    expected = dict(zip(("y", "r", "q", "d", "w"), ReferenceEvaluator(model.proto).run(None, {"x": X}), strict=True))
    assert actual["q"].dtype == ml_dtypes.float4_e2m1fn
    for name in ("q", "d", "w"):
        assert actual[name].tobytes() == expected[name].tobytes()


@pytest.mark.parametrize("quantized", ["FLOAT4E2M1", "FLOAT6E2M3", "FLOAT6E3M2", "INT8", "FLOAT8E5M2"])
@pytest.mark.parametrize("float_type", ["FLOAT", "FLOAT16", "BFLOAT16"])
def test_pairs_of_every_type_at_opset_28(quantized: str, float_type: str) -> None:
    elem_type = getattr(T, float_type)
    model = stamp(pair_model(getattr(T, quantized), float_type=elem_type, scale=0.25), 28)
    x = X.reshape(-1).astype(helper.tensor_dtype_to_np_dtype(elem_type))
    (actual,) = evaluate(model, {"x": x.astype(np.float32) if float_type == "BFLOAT16" else x}).values()
    (expected,) = ReferenceEvaluator(model.proto).run(None, {"x": x})
    assert actual.dtype == x.dtype
    assert actual.tobytes() == np.asarray(expected).tobytes()


def test_mixed_types_and_precision() -> None:
    mixed = stamp(pair_model(T.INT8, float_type=T.FLOAT16, scale=0.07367), 23)
    scale = next(tensor for tensor in mixed.proto.graph.initializer if tensor.name == "s")
    scale.CopyFrom(constant("s", 0.07367))
    mixed.proto.graph.node[1].attribute.append(helper.make_attribute("output_dtype", T.FLOAT16))
    x = X.reshape(-1).astype(np.float16)
    (actual,) = evaluate(mixed, {"x": x}).values()
    codes = np.clip(np.rint(x.astype(np.float32) / np.float32(0.07367)), -128, 127)
    assert np.array_equal(actual, (codes * np.float32(0.07367)).astype(np.float16))
    # 8.51 / 0.0736694 = 115.486, in float16 115.5: only with precision does it become 116
    precise = stamp(pair_model(T.INT8, scale=0.0736694), 23)
    precise.proto.graph.node[0].attribute.append(helper.make_attribute("precision", T.FLOAT16))
    (actual,) = evaluate(precise, {"x": np.float32([8.51])}).values()
    assert actual[0] == np.float32(116) * np.float32(0.0736694)


def test_a_divided_int8_model_gives_onnxruntimes_bits() -> None:
    """Only the stamp is newer than ONNX Runtime: Q and DQ are ours, everything else is its own."""
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
    ]
    proto = conv_model(opset=21, ir_version=10)
    for node in nodes[::-1]:
        proto.graph.node.insert(0, node)
    proto.graph.node[2].input[0] = "d"
    proto.graph.initializer.extend([constant("s", 0.02), constant("z", 3, T.INT8)])
    feeds = {"x": np.random.default_rng(0).normal(size=(1, 3, 8, 8)).astype(np.float32)}
    expected = run(proto, feeds)[0]
    (actual,) = evaluate(stamp(Model(proto), 28), feeds).values()
    assert actual.tobytes() == expected.tobytes()


def test_a_model_that_onnxruntime_runs_is_not_divided() -> None:
    for model in (pair_model(T.INT8), text_model(LOOP_AND_BRANCHES), Model(conv_model(opset=21, ir_version=10))):
        assert split_of(model) is None
    with open_session(pair_model(T.INT8), None) as session:
        assert isinstance(session, Session)


def test_bodies_and_captures_survive_the_cuts() -> None:
    model = text_model(
        """
        <ir_version: 11, opset_import: ["": 23, "my": 1]>
        g (float[4] x, bool c) => (float[4] y)
        {
          q = QuantizeLinear <output_dtype = 23> (x, s)
          d = DequantizeLinear (q, s)
          e = my.Twice (d)
          y = If (c) <
            then_branch = t () => (float[4] a) { a = Add (d, e) },
            else_branch = f () => (float[4] b) { b = Sub (x, e) }
          >
        }
        <domain: "my", opset_import: ["": 23]>
        Twice (a) => (b) { b = Add (a, a) }
        """,
        constant("s", 0.5),
    )
    x = np.float32([0.3, 2.4, -1.1, 99])
    d = np.float32([0.5, 2, -1, 3])
    d[0] = 0.25  # 0.3 / 0.5 = 0.6, nearest fp4 value 0.5
    assert np.array_equal(evaluate(model, {"x": x, "c": np.array(True)})["y"], 3 * d)
    assert np.array_equal(evaluate(model, {"x": x, "c": np.array(False)})["y"], x - 2 * d)


def test_codes_may_be_reshaped_and_transposed_between_q_and_dq() -> None:
    model = text_model(
        """
        <ir_version: 11, opset_import: ["": 23]>
        g (float[2,3] x) => (float[3,2] y)
        {
          q = QuantizeLinear <output_dtype = 23> (x, s)
          t = Transpose (q)
          y = DequantizeLinear (t, s)
        }
        """,
        constant("s", 0.5),
    )
    x = np.float32([[0, 0.5, 1], [1.5, 2, 3]])
    assert np.array_equal(evaluate(model, {"x": x})["y"], x.T)


OF_TENSORRT = """
<ir_version: 11, opset_import: ["": 23, "trt": 1]>
g (float[4,32] x) => (float[4,8] y, float[4,8] z)
{
  q, b = trt.TRT_FP4DynamicQuantize <axis = -1, block_size = 16> (x, g)
  bd = DequantizeLinear (b, g)
  d = DequantizeLinear <axis = -1, block_size = 16> (q, bd)
  wf = DequantizeLinear (wsq, g)
  w = DequantizeLinear <axis = 0, block_size = 16> (wq, wf)
  m = MatMul (d, w)
  y = Relu (m)
  r = Neg (x)
  p, e = trt.TRT_MXFP8DynamicQuantize (r)
  pd = trt.TRT_MXFP8DequantizeLinear (p, e)
  v = trt.TRT_MXFP8DequantizeLinear <axis = 0> (vq, ve)
  n = MatMul (pd, v)
  f = trt.TRT_FP8QuantizeLinear (n, s)
  z = trt.TRT_FP8DequantizeLinear (f, s)
}
"""
FP8, FP4 = np.dtype(ml_dtypes.float8_e4m3fn), np.dtype(ml_dtypes.float4_e2m1fn)


def test_nvfp4_and_mxfp8_as_tensorrt_computes_them_among_other_nodes() -> None:
    rng = np.random.default_rng(2)
    model = text_model(
        OF_TENSORRT,
        constant("g", 0.004),
        constant("wsq", rng.uniform(10, 300, (2, 8)), T.FLOAT8E4M3FN),
        constant("wq", rng.uniform(-6, 6, (32, 8)), T.FLOAT4E2M1),
        constant("vq", rng.uniform(-400, 400, (32, 8)), T.FLOAT8E4M3FN),
        constant("ve", rng.integers(115, 122, (1, 8)), T.UINT8),
        constant("s", 0.25),
    )
    inner = ("q", "b", "d", "w", "p", "e", "pd", "v", "m", "n", "f")
    for name in inner:
        model.proto.graph.output.append(onnx.ValueInfoProto(name=name))
    actual = evaluate(model, {"x": X})
    stored = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.proto.graph.initializer}

    g = np.float32(0.004)
    amax = np.abs(X).reshape(4, 2, 16).max(2)
    b = (amax / np.float32(6) / g).astype(FP8)
    scale = (b.astype(np.float32) * g).repeat(16, 1)
    q = np.clip(X / scale, -6, 6).astype(FP4)
    w = stored["wq"].astype(np.float32) * (stored["wsq"].astype(np.float32) * g).repeat(16, 0)
    e = np.ceil(np.log2(amax.max(1, keepdims=True).astype(np.float64) / 448))
    p = (-X / np.exp2(e).astype(np.float32)).astype(FP8)
    v = stored["vq"].astype(np.float32) * np.exp2(stored["ve"].astype(np.float32) - 127)
    expected = {
        "q": q,
        "b": b,
        "d": q.astype(np.float32) * scale,
        "w": w,
        "p": p,
        "e": (e + 127).astype(np.uint8),
        "pd": p.astype(np.float32) * np.exp2(e).astype(np.float32),
        "v": v,
        "f": np.clip(actual["n"] / np.float32(0.25), -448, 448).astype(FP8),
    }
    for name, array in expected.items():
        assert actual[name].dtype == array.dtype
        assert actual[name].tobytes() == array.tobytes()
    # sums of 32 products of float32 in another order
    np.testing.assert_allclose(actual["m"], expected["d"] @ w, rtol=2e-6, atol=2e-5)
    np.testing.assert_allclose(actual["n"], expected["pd"] @ v, rtol=2e-6, atol=2e-5)
    assert np.array_equal(actual["y"], np.maximum(actual["m"], 0))
    assert np.array_equal(actual["z"], actual["f"].astype(np.float32) * np.float32(0.25))


def test_an_operator_of_tensorrt_that_reads_no_codes_says_so() -> None:
    model = text_model(
        """
        <ir_version: 11, opset_import: ["": 23, "trt": 1]>
        g (float[4,32] x) => (float[4,32] y) { y = trt.TRT_MXFP8DequantizeLinear (x, e) }
        """,
        constant("e", 127, T.UINT8),
    )
    with pytest.raises(RunError, match=r"TRT_MXFP8DequantizeLinear node .* it reads float32 values, not codes"):
        evaluate(model, {"x": X})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            """
            <ir_version: 13, opset_import: ["": 28]>
            g (float start, float limit, float delta) => (float[n] y) { y = Range (start, limit, delta) }
            """,
            r"ONNX Runtime knows it up to 26, and node 'Range -> y' \(Range\) uses a newer definition of its operator",
        ),
        (
            """
            <ir_version: 11, opset_import: ["": 23]>
            g (float[2] x) => (float[2] y) <float s = {1.0}>
            {
              q = Cast <to = 23> (x)
              y = DequantizeLinear (q, s)
            }
            """,
            r"'Cast -> q' \(Cast\) reads or makes float4e2m1, which neither",
        ),
    ],
)
def test_what_neither_can_run_is_named(text: str, message: str) -> None:
    with pytest.raises(CapabilityError, match=message):
        split_of(text_model(text))


@pytest.mark.parametrize("data", ["x", "c"])
def test_a_node_without_output_is_refused(data: str) -> None:
    """As ONNX Runtime refuses one of its own; nothing else can be done with what has no name."""
    model = stamp(pair_model(T.FLOAT4E2M1), 23)
    model.proto.graph.initializer.append(constant("c", [1, 2]))
    model.proto.graph.node.append(helper.make_node("QuantizeLinear", [data, "s", "z"], [""], name="lost"))
    with pytest.raises(ModelError, match=r"node 'lost' \(QuantizeLinear\) has no output; the operator has one"):
        evaluate(model, {"x": X[0]})
