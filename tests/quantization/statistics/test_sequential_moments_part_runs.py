"""Parts of a model beside the same parts with other weights."""

import weakref

import numpy as np
import onnx
from onnx import helper
from support.small import make_model

from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model
from qdqtool.models.plan import Slot, UseRef
from qdqtool.models.running.graph_parts import GraphPart
from qdqtool.quantization.statistics.sequential_moments import PartRuns, SamplePair

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
