"""Models in parts: the same bits as in one session, and no part with more weights than it may have."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from support.paths import ROOT
from support.qdq import constant, text_model
from support.small import conv_model, make_model

from benchmarks.comparison.decoder import Decoder, Size
from qdqtool.accuracy.search.blame import IN_PARTS
from qdqtool.jobs.quantize import QuantizeOptions, quantize_model
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model
from qdqtool.models.options import Profile
from qdqtool.models.running import own_evaluator
from qdqtool.models.running.ort_cpu import Session
from qdqtool.models.running.own_evaluator import PartedSession, SplitSession, has_large_weights, open_session
from qdqtool.models.running.own_support import plan_split
from qdqtool.numerics.dtypes import BFLOAT16
from qdqtool.quantization.planning.recipe import Recipe

X = np.random.default_rng(3).normal(size=(4, 8)).astype(np.float32)


@pytest.fixture(autouse=True)
def small_limits(monkeypatch) -> None:
    monkeypatch.setattr(own_evaluator, "LARGE_WEIGHTS", 64)
    monkeypatch.setattr(own_evaluator, "PART_WEIGHTS", 8 * 8 * 4)


def chain(dtype: type = np.float32, layers: int = 4) -> onnx.ModelProto:
    """MatMuls with a Relu and a skip connection; each weight is as large as a part may be."""
    random, nodes, weights, x = np.random.default_rng(0), [], {}, "x"
    for number in range(layers):
        weights[f"w{number}"] = random.normal(size=(8, 8)).astype(dtype)
        nodes.append(helper.make_node("MatMul", [x, f"w{number}"], [f"p{number}"]))
        nodes.append(helper.make_node("Relu", [f"p{number}"], [f"r{number}"]))
        nodes.append(helper.make_node("Add", [f"r{number}", x], [x := f"y{number}"]))
    elem_type = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return make_model(nodes, {"x": (4, 8)}, {x: (4, 8)}, weights, elem_type=elem_type)


def parts_of(model: Model) -> PartedSession:
    session = open_session(model, None)
    assert isinstance(session, PartedSession)
    return session


def both(proto: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    with Session(Model(proto)) as whole, parts_of(Model(proto)) as parts:
        return whole.run(feeds), parts.run(feeds)


def assert_same_bits(proto: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> None:
    whole, parts = both(proto, feeds)
    assert {name: array.tobytes() for name, array in parts.items()} == {
        name: array.tobytes() for name, array in whole.items()
    }


def test_a_chain_of_bfloat16_runs_in_parts_with_the_same_bits():
    model = Model(chain(BFLOAT16))
    split = plan_split(ModelIndex.of(model))
    assert split is not None
    with SplitSession(model, split, Profile.SEMANTIC) as whole, open_session(model, split) as parts:
        assert isinstance(parts, PartedSession)
        expected, found = whole.run({"x": X})["y3"], parts.run({"x": X})["y3"]
    assert found.dtype == BFLOAT16
    assert found.tobytes() == expected.tobytes()


def test_a_chain_runs_one_weight_at_a_time_with_the_same_bits(monkeypatch):
    seen = []

    class Watched(Session):
        def __init__(self, model: Model, profile: Profile) -> None:
            seen.append(sorted(tensor.name for tensor in model.proto.graph.initializer))
            super().__init__(model, profile)

    monkeypatch.setattr(own_evaluator, "Session", Watched)
    assert_same_bits(chain(), {"x": X})
    assert seen == [["w0"], ["w1"], ["w2"], ["w3"]]


def test_half_precision_differs_by_the_roundings_between_parts():
    whole, parts = both(chain(np.float16), {"x": X.astype(np.float16)})
    assert parts["y3"].dtype == np.float16
    np.testing.assert_allclose(parts["y3"], whole["y3"], rtol=4e-3, atol=1e-2)


@pytest.mark.parametrize("name", ["digits_cnn", "digits_transformer", "char_lm"])
def test_sample_models_give_the_same_bits(name, monkeypatch):
    proto = onnx.load(ROOT / "sample_models" / name / "model.onnx")
    sample = np.load(ROOT / "sample_models" / name / "calibration.npz")
    names = {value.name for value in proto.graph.input}
    feeds = {key: sample[key][:1] for key in sample.files if key in names}
    monkeypatch.setattr(own_evaluator, "PART_WEIGHTS", 1 << 15)
    assert len(parts_of(Model(proto))._parts) > 2
    assert_same_bits(proto, feeds)


def test_weights_that_are_dequantized_are_made_in_the_part_that_reads_them():
    codes = np.random.default_rng(1).integers(-100, 100, (2, 8, 8)).astype(np.int8)
    model = text_model(
        """<ir_version: 10, opset_import: ["": 21]>
        g (float[4,8] x) => (float[4,8] z) <float s = {0.01}> {
            da = DequantizeLinear(a, s)
            db = DequantizeLinear(b, s)
            y = MatMul(x, da)
            z = MatMul(y, db)
        }""",
        constant("a", codes[0], TensorProto.INT8),
        constant("b", codes[1], TensorProto.INT8),
    )
    parts = parts_of(model)._parts
    assert [[node.output[0] for node in part.nodes] for part in parts] == [["da", "y"], ["db", "z"]]
    assert [part.kept for part in parts] == [{"y"}, {"z"}]
    assert_same_bits(model.proto, {"x": X})


def test_outputs_that_need_no_run_and_outputs_of_constants():
    nodes = [
        helper.make_node("Neg", ["w"], ["n"]),
        helper.make_node("MatMul", ["x", "w"], ["y"]),
        helper.make_node("MatMul", ["y", "v"], ["z"]),
    ]
    weights = {"w": np.eye(8, dtype=np.float32) * 2, "v": np.eye(8, dtype=np.float32)}
    shapes = {"y": (4, 8), "z": (4, 8), "n": (8, 8), "w": (8, 8)}
    assert_same_bits(make_model(nodes, {"x": (4, 8)}, shapes, weights), {"x": X})


def test_bodies_read_tensors_of_earlier_parts():
    model = text_model(
        """<ir_version: 10, opset_import: ["": 21]>
        g (float[4,8] x, bool c) => (float[4,8] z) {
            y = MatMul(x, a)
            z = If (c) <
                then_branch = t () => (float[4,8] zt) { zt = MatMul(y, b) },
                else_branch = e () => (float[4,8] ze) { ze = Add(y, x) }
            >
        }""",
        constant("a", X[:1].T @ X[:1]),
        constant("b", X[:1].T @ X[1:2]),
    )
    assert [part.kept for part in parts_of(model)._parts] == [{"y"}, {"z"}]
    for branch in (False, True):
        assert_same_bits(model.proto, {"x": X, "c": np.array(branch)})


def test_runs_for_speed_are_near_those_of_the_whole():
    with (
        Session(Model(chain()), Profile.DEPLOYED) as whole,
        open_session(Model(chain()), None, Profile.DEPLOYED) as part,
    ):
        np.testing.assert_allclose(part.run({"x": X})["y3"], whole.run({"x": X})["y3"], rtol=1e-4, atol=1e-4)


def test_small_models_run_in_one_session(monkeypatch):
    monkeypatch.setattr(own_evaluator, "LARGE_WEIGHTS", 1 << 20)
    with open_session(Model(conv_model()), None) as session:
        assert isinstance(session, Session)


def test_models_whose_parts_would_exchange_sequences_run_in_one_session():
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["y"]),
        helper.make_node("SequenceConstruct", ["y", "x"], ["s"]),
        helper.make_node("MatMul", ["y", "v"], ["z"]),
        helper.make_node("ConcatFromSequence", ["s"], ["c"], axis=0),
        helper.make_node("MatMul", ["c", "w"], ["o"]),
    ]
    weights = {"w": np.eye(8, dtype=np.float32), "v": np.eye(8, dtype=np.float32)}
    proto = make_model(nodes, {"x": (4, 8)}, {"z": (4, 8), "o": (8, 8)}, weights)
    with open_session(Model(proto), None) as session:
        assert isinstance(session, Session)
        assert session.run({"x": X})["o"].shape == (8, 8)


def test_elements_decide_whatever_type_they_are_stored_in(monkeypatch):
    proto = make_model([helper.make_node("Neg", ["x"], ["y"])], {"x": (1,)}, {"y": (1,)}, {"w": np.zeros(16, np.int8)})
    monkeypatch.setattr(own_evaluator, "LARGE_WEIGHTS", 64)
    assert has_large_weights(Model(proto))
    monkeypatch.setattr(own_evaluator, "LARGE_WEIGHTS", 65)
    assert not has_large_weights(Model(proto))
    assert proto.graph.initializer[0].data_type == TensorProto.INT8


@pytest.mark.slow(reason="models of hundreds of megabytes")
@pytest.mark.parametrize("mode", ["int8", "int4", "fp8"])
def test_a_model_in_parts_is_quantized_as_a_whole_one_but_for_what_needs_all_weights(mode, tmp_path, monkeypatch):
    decoder = Size(2, width=64, heads=2, inner=256, vocabulary=96, tokens=8)
    Decoder(decoder).write(tmp_path / "m.onnx")
    tokens = np.random.default_rng(0).integers(0, 96, (10, 8))
    np.savez(tmp_path / "c.npz", input_ids=tokens)
    options = QuantizeOptions(recipe=Recipe(quantize_mode=mode, target="tensorrt-rtx"))
    reports = []
    for limit in (1 << 40, 1):
        monkeypatch.setattr(own_evaluator, "LARGE_WEIGHTS", limit)
        monkeypatch.setattr(own_evaluator, "PART_WEIGHTS", 1 << 16)
        reports.append(quantize_model(tmp_path / "m.onnx", tmp_path / "c.npz", tmp_path / f"{limit}.onnx", options))
    whole, parts = reports
    assert [each.tensor for each in parts.quantized] == [each.tensor for each in whole.quantized]
    assert parts.blame is not None
    assert parts.blame.problem == IN_PARTS
    assert whole.blame is None or not whole.blame.problem
    assert parts.accuracy is not None
    assert whole.accuracy is not None
    found, expected = (report.accuracy.outputs[0].sqnr_db for report in (parts, whole))
    assert found == pytest.approx(expected, abs=3)
