"""Weights, scales and zero points that are stored sparsely, in several places."""

from collections.abc import Iterator, Sequence

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper, numpy_helper

from support.corpus._case import SCALE, Case, node, tensor

DIAGONAL = np.diag([1.0, 2.0, 3.0, 4.0])
READERS: dict[str, tuple[Sequence[onnx.NodeProto], object, int]] = {
    "MatMul": ([node("MatMul", ["x", "w"], "y")], DIAGONAL, T.FLOAT),
    "Add": ([node("Add", ["x", "w"], "y")], np.array([1.0, 0, 0, 1]), T.FLOAT),
    "DQ": ([node("DequantizeLinear", ["w", "s"], "d"), node("MatMul", ["x", "d"], "y")], DIAGONAL, T.INT8),
    "Q": (
        [
            node("QuantizeLinear", ["w", "s"], "q", output_dtype=T.INT8),
            node("DequantizeLinear", ["q", "s"], "d"),
            node("MatMul", ["x", "d"], "y"),
        ],
        DIAGONAL,
        T.FLOAT,
    ),
    "nothing": ([node("Relu", ["x"], "y")], DIAGONAL, T.FLOAT),
}


def cases() -> Iterator[Case]:
    for reader, (nodes, dense, kind) in READERS.items():
        for where in ("alone", "an input too", "a dense one too", *(["an output too"] if reader == "nothing" else [])):
            yield Case(f"sparse, read by {reader}, {where}", _model(nodes, np.asarray(dense), kind, where))
    yield Case("a sparse Constant", _constant())


def _model(nodes: Sequence[onnx.NodeProto], dense: np.ndarray, kind: int, where: str) -> onnx.ModelProto:
    inputs, outputs, stored = [("x", T.FLOAT, [1, 4])], [("y", T.FLOAT, None)], []
    described = ("w", kind, list(dense.shape))
    inputs += [described] if where == "an input too" else []
    outputs += [described] if where == "an output too" else []
    stored += [tensor("w", dense, kind)] if where == "a dense one too" else []
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(*each) for each in inputs],
        [helper.make_tensor_value_info(*each) for each in outputs],
        [*stored, *([SCALE] if any("s" in each.input for each in nodes) else [])],
        sparse_initializer=[_sparse("w", dense, kind)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def _sparse(name: str, dense: np.ndarray, kind: int) -> onnx.SparseTensorProto:
    places = np.flatnonzero(dense)
    values = dense.reshape(-1)[places].astype(helper.tensor_dtype_to_np_dtype(kind))
    indices = numpy_helper.from_array(places.astype(np.int64), f"{name}_indices")
    return helper.make_sparse_tensor(numpy_helper.from_array(values, name), indices, list(dense.shape))


def _constant() -> onnx.ModelProto:
    nodes = [
        helper.make_node("Constant", [], ["w"], sparse_value=_sparse("w", DIAGONAL, T.FLOAT)),
        node("MatMul", ["x", "w"], "y"),
    ]
    io = [helper.make_tensor_value_info("x", T.FLOAT, [1, 4])], [helper.make_tensor_value_info("y", T.FLOAT, None)]
    graph = helper.make_graph(nodes, "g", *io)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
