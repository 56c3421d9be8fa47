"""One-node models of old opsets: operator, opset, attributes, inputs. The first input is fed, the others are stored."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

Array = NDArray[Any]

DOMAIN = "com.example.one"
_random = np.random.default_rng(17)


def floats(*shape: int) -> Array:
    return _random.standard_normal(shape).astype(np.float32)


def ints(*values: int) -> Array:
    return np.array(values, np.int64)


def scales(*values: float) -> Array:
    return np.array(values, np.float32)


@dataclass(frozen=True, eq=False)
class OperatorCase:
    """One node.

    Attributes:
        op: Operator.
        opset: The version of the default domain.
        attributes: Its attributes.
        inputs: Values of its inputs; an empty float array stands for itself.
        outputs: Number of outputs.
    """

    op: str
    opset: int
    attributes: dict[str, Any]
    inputs: list[Array]
    outputs: int = 1

    def __str__(self) -> str:
        attributes = ",".join(f"{name}={value}" for name, value in self.attributes.items())
        return f"{self.op}-{self.opset}({attributes})".replace(" ", "")

    def feeds(self) -> dict[str, Array]:
        return {"i0": self.inputs[0]}

    def in_main_graph(self) -> onnx.ModelProto:
        """The node by itself."""
        graph = self._graph([self._node()])
        graph.initializer.extend(self._stored())
        return self._model(graph)

    def in_branch(self) -> onnx.ModelProto:
        """The node in both branches of an If; it captures its inputs."""
        body = onnx.GraphProto(name="body", node=[self._node("b")])
        body.output.extend(onnx.ValueInfoProto(name=f"b{index}") for index in range(self.outputs))
        branches = {"then_branch": body, "else_branch": body}
        node = helper.make_node("If", ["flag"], [f"o{index}" for index in range(self.outputs)], **branches)
        graph = self._graph([node])
        graph.initializer.extend([*self._stored(), numpy_helper.from_array(np.array(True), "flag")])
        return self._model(graph)

    def fits_function(self) -> bool:
        """Whether its stored inputs can be Constant nodes: integers can from opset 9 on."""
        return self.opset >= 9 or all(array.dtype == np.float32 for array in self.inputs[1:])

    def in_function(self) -> onnx.ModelProto:
        """The node in a local function, which knows no types and stores constants in nodes."""
        outputs = [f"o{index}" for index in range(self.outputs)]
        constants = [helper.make_node("Constant", [], [tensor.name], value=tensor) for tensor in self._stored()]
        imports = [helper.make_opsetid("", self.opset)]
        function = helper.make_function(DOMAIN, "One", ["i0"], outputs, [*constants, self._node()], imports)
        model = self._model(self._graph([helper.make_node("One", ["i0"], outputs, domain=DOMAIN)]))
        model.opset_import.append(helper.make_opsetid(DOMAIN, 1))
        model.functions.append(function)
        return model

    def _node(self, prefix: str = "o") -> onnx.NodeProto:
        inputs = [f"i{index}" for index in range(len(self.inputs))]
        return helper.make_node(
            self.op, inputs, [f"{prefix}{index}" for index in range(self.outputs)], **self.attributes
        )

    def _stored(self) -> list[onnx.TensorProto]:
        return [numpy_helper.from_array(array, f"i{index}") for index, array in enumerate(self.inputs) if index]

    def _graph(self, nodes: list[onnx.NodeProto]) -> onnx.GraphProto:
        fed = self.inputs[0]
        value = helper.make_tensor_value_info("i0", helper.np_dtype_to_tensor_dtype(fed.dtype), fed.shape)
        outputs = [onnx.ValueInfoProto(name=f"o{index}") for index in range(self.outputs)]
        return onnx.GraphProto(name="one", node=nodes, input=[value], output=outputs)

    def _model(self, graph: onnx.GraphProto) -> onnx.ModelProto:
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)


_X = floats(2, 4, 6, 8)
_POSITIVE = np.abs(_X)
_HALF = _X.astype(np.float16)
_NONE = scales()
_REDUCTIONS = ["Mean", "Max", "Min", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare"]

C = OperatorCase
CASES: list[OperatorCase] = [
    C("Upsample", 7, {"mode": "nearest", "scales": [1.0, 1.0, 2.0, 2.0]}, [_X]),
    C("Upsample", 7, {"mode": "linear", "scales": [1.0, 1.0, 2.0, 2.0]}, [_X]),
    C("Upsample", 9, {"mode": "nearest"}, [_X, scales(1, 1, 2, 2)]),
    C("Upsample", 9, {"mode": "nearest"}, [_X, scales(1, 1, 1.7, 2.6)]),
    C("Upsample", 9, {"mode": "linear"}, [_X, scales(1, 1, 2, 3)]),
    C("Upsample", 9, {}, [_X, scales(1, 1, 3, 3)]),
    C("Resize", 10, {"mode": "nearest"}, [_X, scales(1, 1, 1.5, 2.5)]),
    C("Resize", 10, {"mode": "nearest"}, [_X, scales(1, 1, 0.5, 0.4)]),
    C("Resize", 10, {"mode": "nearest"}, [_X, scales(1, 1, 0.6, 1.0)]),
    C("Resize", 10, {"mode": "linear"}, [_X, scales(1, 1, 2, 3)]),
    C(
        "Resize",
        11,
        {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
        [_X, _NONE, scales(1, 1, 2, 3)],
    ),
    C("Resize", 11, {"mode": "cubic"}, [_X, _NONE, scales(1, 1, 2, 3)]),
    C("Resize", 11, {"mode": "nearest"}, [_X, _NONE, _NONE, ints(2, 4, 9, 9)]),
    C("BatchNormalization", 7, {"epsilon": 1e-3}, [_X, floats(4), floats(4), floats(4), np.abs(floats(4))]),
    C("BatchNormalization", 9, {"epsilon": 1e-3}, [_X, floats(4), floats(4), floats(4), np.abs(floats(4))]),
    C("Dropout", 7, {"ratio": 0.5}, [_X]),
    C("Dropout", 10, {"ratio": 0.5}, [_X]),
    C("Dropout", 12, {}, [_X, np.array(0.5, np.float32)]),
    C("Slice", 9, {"starts": [0, 1], "ends": [1, 3], "axes": [0, 2]}, [_X]),
    C("Slice", 7, {"starts": [0, 1], "ends": [1, -1]}, [_X]),
    C("TopK", 9, {"k": 3, "axis": -1}, [_X], 2),
    C("TopK", 7, {"k": 3, "axis": 1}, [_X], 2),
    C("Clip", 7, {"min": -0.5, "max": 0.5}, [_X]),
    C("Clip", 7, {}, [_X]),
    C("Clip", 7, {"max": 0.5}, [_X]),
    C("Pad", 7, {"mode": "constant", "pads": [0, 0, 1, 1, 0, 0, 2, 2], "value": 3.0}, [_X]),
    C("Pad", 7, {"mode": "reflect", "pads": [0, 0, 1, 1, 0, 0, 2, 2]}, [_X]),
    C("Pad", 13, {"mode": "edge"}, [_X, ints(0, 0, 1, 1, 0, 0, 2, 2)]),
    C("Clip", 7, {"min": -0.5, "max": 0.1}, [_HALF]),
    C("Clip", 10, {"min": -3.4e38, "max": 0.1}, [_HALF]),
    C("Pad", 10, {"pads": [0, 0, 1, 1, 0, 0, 2, 2], "value": 0.1}, [_HALF]),
    C("Pad", 7, {"pads": [0, 0, 1, 1, 0, 0, 2, 2]}, [_HALF]),
    C("Pad", 10, {"pads": [0, 0, 1, 1, 0, 0, 2, 2], "value": 0.1}, [_X.astype(np.float64)]),
    C("Softmax", 7, {}, [_X]),
    C("Softmax", 11, {}, [_X]),
    C("Softmax", 11, {}, [floats(3, 5)]),
    *(C("Softmax", 11, {"axis": axis}, [_X]) for axis in (2, -1, 0)),
    C("LogSoftmax", 11, {}, [_X]),
    C("LogSoftmax", 11, {"axis": -2}, [_X]),
    C("Hardmax", 11, {"axis": -1}, [_X]),
    C("Squeeze", 11, {"axes": [0]}, [floats(1, 3)]),
    C("Squeeze", 11, {"axes": [-2]}, [floats(1, 3)]),
    C("Squeeze", 11, {}, [floats(1, 3, 1)]),
    C("Unsqueeze", 11, {"axes": [0, -1]}, [floats(1, 3)]),
    C("ReduceSum", 11, {"axes": [1]}, [_X]),
    C("ReduceSum", 11, {}, [_X]),
    C("ReduceSum", 11, {"axes": [-1], "keepdims": 0}, [_X]),
    C("Split", 11, {"axis": 1, "split": [1, 3]}, [_X], 2),
    C("Split", 11, {"axis": 1}, [_X], 2),
    C("Split", 13, {"axis": 1}, [_X], 2),
    C("Split", 13, {"axis": 1}, [_X, ints(3, 1)], 2),
    *(
        C(f"Reduce{kind}", 13, attributes, [_POSITIVE])
        for kind in _REDUCTIONS
        for attributes in ({"axes": [1, -1]}, {}, {"axes": [2], "keepdims": 0})
    ),
    C("ArgMax", 11, {"axis": -1}, [_X]),
    C("ArgMin", 7, {"axis": 1}, [_X]),
    C("MaxPool", 8, {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}, [_X]),
    C("Conv", 7, {"kernel_shape": [3, 3]}, [_X, floats(5, 4, 3, 3), floats(5)]),
    C("ConvTranspose", 7, {"kernel_shape": [3, 3], "strides": [2, 2]}, [_X, floats(4, 5, 3, 3)]),
    C("Gemm", 7, {"transB": 1}, [floats(2, 3), floats(4, 3), floats(4)]),
    C("Gemm", 9, {"alpha": 0.5}, [floats(2, 3), floats(3, 4), floats(2, 1)]),
    C("MatMul", 7, {}, [floats(2, 3), floats(3, 4)]),
    C("Add", 7, {}, [_X, floats(8)]),
    C("Pow", 7, {}, [_POSITIVE, floats(8)]),
    C("PRelu", 7, {}, [_X, floats(4, 1, 1)]),
    C("Flatten", 7, {}, [_X]),
    C("Flatten", 9, {"axis": 2}, [_X]),
    C("Gather", 7, {"axis": 1}, [_X, ints(0, 2)]),
    C("Scatter", 9, {"axis": 0}, [floats(3, 2), ints(0, 1).reshape(1, 2), floats(1, 2)]),
    C("ScatterElements", 11, {}, [floats(3, 2), ints(0, 1).reshape(1, 2), floats(1, 2)]),
    C("OneHot", 9, {}, [ints(0, 1), np.array(3, np.int64), np.array([0, 1], np.float32)]),
    C("Cast", 7, {"to": onnx.TensorProto.INT64}, [_X]),
    C("Cast", 9, {"to": onnx.TensorProto.FLOAT16}, [_X]),
    C("LSTM", 7, {"hidden_size": 3}, [floats(2, 1, 4), floats(1, 12, 4), floats(1, 12, 3), floats(1, 24)]),
    C("GRU", 7, {"hidden_size": 3}, [floats(2, 1, 4), floats(1, 9, 4), floats(1, 9, 3)]),
    C("InstanceNormalization", 7, {}, [_X, floats(4), floats(4)]),
    C("LRN", 7, {"size": 3}, [_X]),
    C("DepthToSpace", 11, {"blocksize": 2, "mode": "CRD"}, [_X]),
    C("GridSample", 16, {}, [_X, floats(2, 3, 3, 2)]),
    C("GridSample", 16, {"mode": "bicubic"}, [_X, floats(2, 3, 3, 2)]),
    C("CumSum", 11, {}, [_X, np.array(1, np.int64)]),
    C("Where", 9, {}, [_X > 0, _X, _X]),
    C("Expand", 8, {}, [floats(1, 3), ints(2, 3)]),
    C("Reshape", 7, {}, [_X, ints(0, -1)]),
    C("QuantizeLinear", 10, {}, [_X, np.array(0.1, np.float32), np.array(3, np.uint8)]),
    C("DequantizeLinear", 10, {}, [np.arange(4, dtype=np.uint8), np.array(0.1, np.float32), np.array(3, np.uint8)]),
    C("QuantizeLinear", 13, {"axis": 1}, [_X, scales(0.1, 0.2, 0.3, 0.4), np.array([3, 4, 5, 6], np.uint8)]),
    C("QuantizeLinear", 19, {"axis": 1}, [_X, scales(0.1, 0.2, 0.3, 0.4), np.array([3, 4, 5, 6], np.int8)]),
    C("DynamicQuantizeLinear", 11, {}, [_X], 3),
    C("LayerNormalization", 17, {}, [_X, floats(8)]),
    C("DFT", 17, {"axis": 1}, [floats(1, 8, 1)]),
    C("NonZero", 9, {}, [_X]),
    C("IsInf", 10, {}, [_X]),
]
"""What the converter takes to every later opset without changing a bit in ONNX Runtime."""

REFUSED: list[tuple[OperatorCase, int]] = [
    (C("Hardmax", 11, {}, [_X]), 13),
    (C("GroupNormalization", 18, {"num_groups": 2}, [_X, floats(2), floats(2)]), 21),
    (C("Resize", 10, {"mode": "nearest"}, [_X, scales(1, 1, 0.5, 2)]), 11),
    (C("BatchNormalization", 8, {"spatial": 0}, [floats(2, 3), floats(3), floats(3), floats(3), np.abs(floats(3))]), 9),
]
"""What cannot be converted, and the first opset that it cannot reach."""
