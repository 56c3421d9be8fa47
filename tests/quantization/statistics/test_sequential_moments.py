"""Moments of inputs in the float model and in one with decided weights, against both models run as a whole."""

import weakref
from collections.abc import Mapping

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper
from support.small import make_model, nodes_of

from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model
from qdqtool.models.plan import Slot, UseRef
from qdqtool.models.running.graph_parts import GraphPart
from qdqtool.quantization.statistics import sequential_moments
from qdqtool.quantization.statistics.sequential_moments import PartRuns, SamplePair, SequentialMoments
from qdqtool.samples.feeds import Feeds
from qdqtool.samples.report import DataDescription

K, SAMPLES = 6, 5
NAMES = ("first", "second", "third")


def weights() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    return {name: rng.normal(size=(K, K)).astype(np.float32) for name in NAMES}


def network() -> onnx.ModelProto:
    """Three products; the second reads its weight through a Transpose, the third beside a skip connection."""
    nodes = nodes_of("""a = MatMul (x, first)  b = Relu (a)  t = Transpose <perm = [1, 0]> (second)  c = MatMul (b, t)
        d = Add (c, a)  y = Gemm (d, third)""")
    return make_model(nodes, {"x": ("n", K)}, {"y": ("n", K)}, weights())


SLOTS = (
    Slot((), "first", (UseRef((), ("a",), 1),)),
    Slot((), "second", (UseRef((), ("t",), 0),)),
    Slot((), "third", (UseRef((), ("y",), 1),)),
)
READ = {"first": "x", "second": "b", "third": "d"}


def samples() -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(4)
    return [{"x": rng.normal(size=(rows + 1, K)).astype(np.float32)} for rows in range(SAMPLES)]


def feeds(model_samples: list[dict[str, np.ndarray]]) -> Feeds:
    return Feeds(model_samples, DataDescription("test", len(model_samples), None, {}))


def inner(model: onnx.ModelProto, changed: Mapping[str, np.ndarray], name: str) -> list[np.ndarray]:
    """What the model with these weights computes as a whole, for each sample."""
    if name == "x":
        return [sample["x"] for sample in samples()]
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for tensor in copy.graph.initializer:
        if tensor.name in changed:
            tensor.CopyFrom(numpy_helper.from_array(changed[tensor.name], tensor.name))
    copy.graph.output.append(helper.make_empty_tensor_value_info(name))
    session = onnxruntime.InferenceSession(copy.SerializeToString(), providers=["CPUExecutionProvider"])
    return [session.run([name], sample)[0] for sample in samples()]


@pytest.mark.parametrize("batch", [1, 2, 16])
def test_each_weight_is_measured_behind_what_became_of_those_in_front_of_it(batch, monkeypatch):
    monkeypatch.setattr(sequential_moments, "BATCH", batch)
    model = network()
    staged, changed = SequentialMoments(ModelIndex.of(Model(model)), feeds(samples())), {}
    seen = []
    for (slot,), folds in staged.of(SLOTS):
        read = READ[slot.tensor]
        exact, rounded = inner(model, {}, read), inner(model, changed, read)
        assert len(folds) == 2
        for first, fold in enumerate(folds):
            before, after = (np.concatenate(rows[first::2]).astype(np.float64) for rows in (exact, rounded))
            np.testing.assert_allclose(fold.inputs, after.T @ after, rtol=1e-5, atol=1e-4)
            if changed:
                np.testing.assert_allclose(
                    fold.change @ np.eye(len(after.T)), after.T @ (before - after), rtol=1e-4, atol=1e-4
                )
            else:
                assert fold.change is None
        seen.append(slot.tensor)
        changed[slot.tensor] = np.round(weights()[slot.tensor], 1)
        staged.decide(slot, changed[slot.tensor])
    assert seen == list(NAMES)


def test_a_weight_that_two_activations_are_multiplied_with_is_left_out():
    nodes = nodes_of("a = MatMul (x, first)  b = MatMul (a, first)  y = MatMul (b, second)")
    two = {name: weights()[name] for name in NAMES[:2]}
    model = make_model(nodes, {"x": ("n", K)}, {"y": ("n", K)}, two)
    shared = Slot((), "first", (UseRef((), ("a",), 1), UseRef((), ("b",), 1)))
    other = Slot((), "second", (UseRef((), ("y",), 1),))
    found = SequentialMoments(ModelIndex.of(Model(model)), feeds(samples())).of([shared, other])
    assert [slots for slots, _ in found] == [[other]]


def test_weights_that_read_one_activation_come_together_and_are_measured_once():
    nodes = nodes_of("""a = MatMul (x, first)  b = Relu (a)  c = MatMul (b, second)  d = MatMul (a, third)
        e = MatMul (b, fourth)  y = Sum (c, d, e)""")
    four = {**weights(), "fourth": weights()["first"]}
    places = {"first": "a", "second": "c", "third": "d", "fourth": "e"}
    slots = {name: Slot((), name, (UseRef((), (made,), 1),)) for name, made in places.items()}
    model = make_model(nodes, {"x": ("n", K)}, {"y": ("n", K)}, four)
    found = list(SequentialMoments(ModelIndex.of(Model(model)), feeds(samples())).of(list(slots.values())))
    together = [[slot.tensor for slot in read] for read, _ in found]
    assert sorted(together) == [["first"], ["second", "fourth"], ["third"]]


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e30])
def test_a_weight_whose_inputs_have_no_finite_squares_is_left_out(value):
    data = samples()
    data[2]["x"][0, 0] = value
    found = SequentialMoments(ModelIndex.of(Model(network())), feeds(data)).of(SLOTS[:1])
    assert list(found) == []


def test_with_one_sample_there_is_one_part():
    ((_, folds),) = SequentialMoments(ModelIndex.of(Model(network())), feeds(samples()[:1])).of(SLOTS[:1])
    assert len(folds) == 1


def test_samples_that_take_too_much_memory_are_left_out_from_the_end(monkeypatch):
    monkeypatch.setattr(sequential_moments, "MOST_BYTES", 1)
    (((slot,), (only,)),) = SequentialMoments(ModelIndex.of(Model(network())), feeds(samples())).of(SLOTS[1:2])
    assert slot == SLOTS[1]
    rows = inner(network(), {}, "b")[0].astype(np.float64)
    np.testing.assert_allclose(only.inputs, rows.T @ rows, rtol=1e-5, atol=1e-5)


def test_progress_is_told_of_every_part():
    told = []
    staged = SequentialMoments(ModelIndex.of(Model(network())), feeds(samples()), lambda *done: told.append(done))
    assert len(list(staged.of(SLOTS))) == 3
    assert told == [(0, 2), (1, 2)]


def test_a_model_that_the_runtime_does_not_run_alone_is_left_out():
    model = network()
    bfloat = onnx.ModelProto()
    bfloat.CopyFrom(model)
    for value in (*bfloat.graph.input, *bfloat.graph.output):
        value.type.tensor_type.elem_type = onnx.TensorProto.BFLOAT16
    for tensor in bfloat.graph.initializer:
        tensor.CopyFrom(
            helper.make_tensor(tensor.name, onnx.TensorProto.BFLOAT16, [K, K], weights()[tensor.name].ravel())
        )
    assert list(SequentialMoments(ModelIndex.of(Model(bfloat)), feeds(samples())).of(SLOTS)) == []


W = np.array([[1, 2], [3, 4]], np.float32)


def index() -> ModelIndex:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("Add", ["a", "w"], ["y"])]
    return ModelIndex.of(Model(make_model(nodes, {"x": (2, 2)}, {"y": (2, 2)}, {"w": W})))


def sample() -> SamplePair:
    known = {"x": np.eye(2, dtype=np.float32)}
    return SamplePair(known, known)


def test_both_models_share_what_no_replaced_weight_has_touched():
    runs, pair = PartRuns(index()), sample()
    nodes = list(runs.index.model.proto.graph.node)
    runs.run(GraphPart(nodes, kept={"a", "y"}), [pair])
    assert pair.rounded is pair.exact
    np.testing.assert_array_equal(pair.exact["y"], 2 * W)


def test_only_the_uses_of_the_slot_read_the_other_values():
    runs, pair = PartRuns(index()), sample()
    runs.replace(Slot((), "w", (UseRef((), ("a",), 1),)), 10 * W)
    before = [node.SerializeToString() for node in runs.index.model.proto.graph.node]
    runs.run(GraphPart(list(runs.index.model.proto.graph.node), kept={"a", "y"}), [pair])
    np.testing.assert_array_equal(pair.exact["a"], W)
    np.testing.assert_array_equal(pair.exact["y"], 2 * W)
    np.testing.assert_array_equal(pair.rounded["a"], 10 * W)
    np.testing.assert_array_equal(pair.rounded["y"], 11 * W)
    assert [node.SerializeToString() for node in runs.index.model.proto.graph.node] == before


def test_values_of_a_weight_leave_memory_with_its_last_part():
    runs, pair = PartRuns(index()), sample()
    values = 10 * W
    kept = weakref.ref(values)
    runs.replace(Slot((), "w", (UseRef((), ("a",), 1), UseRef((), ("y",), 1))), values)
    del values
    product, addition = runs.index.model.proto.graph.node
    runs.run(GraphPart([product], kept={"a"}), [pair])
    assert kept() is not None
    runs.run(GraphPart([addition], kept={"y"}), [pair])
    np.testing.assert_array_equal(pair.rounded["y"], 20 * W)
    assert kept() is None


def test_shared_tensors_count_once_and_can_be_dropped():
    pair = sample()
    assert pair.bytes == 16
    pair.rounded = {**pair.exact, "z": np.zeros(3, np.float32)}
    assert pair.bytes == 28
    pair.drop(["x", "unknown"])
    assert (pair.exact, list(pair.rounded)) == ({}, ["z"])


def test_tensors_of_types_that_numpy_lacks_or_of_unknown_types_are_not_exchanged():
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (bfloat16[2] y)'
        "{ y = Cast <to = 16> (x) s = SequenceConstruct (x) }"
    )
    runs = PartRuns(ModelIndex.of(Model(model)))
    assert runs.can_exchange(["x"])
    assert not runs.can_exchange(["x", "y"])
    assert not runs.can_exchange(["s"])
    assert not runs.can_exchange(["nowhere"])
