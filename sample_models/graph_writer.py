"""Writes trained weights as an ONNX graph that is pleasant to read: every node and tensor gets a name of ours."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17
IR_VERSION = 8


class GraphWriter:
    """Collects nodes and initializers in the order of execution."""

    def __init__(self, name: str, doc: str) -> None:
        self._name = name
        self._doc = doc
        self._nodes: list[onnx.NodeProto] = []
        self._initializers: list[onnx.TensorProto] = []

    def constant(self, name: str, array: npt.NDArray[np.generic]) -> str:
        """Add an initializer; returns its name."""
        self._initializers.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def node(self, op_type: str, name: str, *inputs: str, **attributes: Any) -> str:
        """Add a node with one output, ``<name>.out``; returns that."""
        output = f"{name}.out"
        self._nodes.append(helper.make_node(op_type, inputs, [output], name=name, **attributes))
        return output

    def save(
        self, path: Path, inputs: list[onnx.ValueInfoProto], output: onnx.ValueInfoProto, result: str
    ) -> onnx.ModelProto:
        """Name ``result`` as the graph's ``output``, check the model in full and write it.

        Raises:
            onnx.checker.ValidationError: The graph is not valid ONNX.
        """
        self._nodes[-1].output[0] = output.name
        assert self._nodes[-1].name + ".out" == result, "the graph's output is that of its last node"
        graph = helper.make_graph(self._nodes, self._name, inputs, [output], self._initializers, doc_string=self._doc)
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
            producer_name="qdqtool sample_models",
        )
        onnx.checker.check_model(model, full_check=True)
        path.write_bytes(model.SerializeToString(deterministic=True))
        return model


def float_value(name: str, shape: list[int | str]) -> onnx.ValueInfoProto:
    """A float32 graph input or output."""
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def int64_value(name: str, shape: list[int | str]) -> onnx.ValueInfoProto:
    """An int64 graph input or output."""
    return helper.make_tensor_value_info(name, TensorProto.INT64, shape)
