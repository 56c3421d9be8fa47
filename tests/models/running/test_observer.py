"""Outputs that are no tensors are read as one array of their numbers."""

import numpy as np
from onnx import TensorProto as T
from onnx import helper, numpy_helper

from qdqtool.jobs.check import check_model
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model
from qdqtool.models.running.observer import Observer


def pieces(scale: float = 1.0) -> Model:
    """x[2,6] -> Mul -> SplitToSequence by columns, into pieces of 2, 2 and 2; and by 4, into pieces of 4 and 2."""
    nodes = [
        helper.make_node("Mul", ["x", "scale"], ["m"]),
        helper.make_node("SplitToSequence", ["m", "length"], ["y"], axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", T.FLOAT, (2, 6))],
        [helper.make_tensor_sequence_value_info("y", T.FLOAT, None)],
        [numpy_helper.from_array(np.array(4), "length"), numpy_helper.from_array(np.float32(scale), "scale")],
    )
    return Model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10))


def test_a_sequence_is_one_array_of_all_its_numbers() -> None:
    index = ModelIndex.of(pieces())
    x = np.arange(12, dtype=np.float32).reshape(2, 6)
    value = index.view.main.values["y"]
    with Observer(index, [value]) as observer:
        found = observer.output(observer.run({"x": x}), value)
    assert found is not None
    assert found.tolist() == [0, 1, 2, 3, 6, 7, 8, 9, 4, 5, 10, 11]


def test_check_compares_sequences() -> None:
    assert check_model(pieces(), baseline=pieces()).outputs[0].exact
    found = check_model(pieces(1.1), baseline=pieces()).outputs[0].sqnr_db
    assert found is not None
    assert round(found, 3) == 20
