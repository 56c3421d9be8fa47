"""Gives the channels between layers very uneven ranges, as badly behaved trained networks have.

What the network computes stays: what a Conv makes is divided by a factor for each channel, and what reads it is
multiplied by that. No torch is needed; benchmarks use it too.
"""

import numpy as np
import numpy.typing as npt
import onnx
from onnx import numpy_helper

SPREAD = 4.0
"""Factors are ``2**U(-SPREAD, SPREAD)``."""

_READ_THROUGH = frozenset({"Relu", "MaxPool", "GlobalAveragePool", "Flatten"})


def with_uneven_channels(model: onnx.ModelProto, seed: int, spread: float = SPREAD) -> onnx.ModelProto:
    """A copy of ``model`` whose every Conv that exactly one Conv or Gemm reads has random factors moved over to that.

    Between the two may stand Relu, MaxPool, GlobalAveragePool and Flatten: they commute with positive factors for each
    channel. The products are rounded to float32 once, so outputs change by rounding only.

    Args:
        model: A float32 network of Convs (plain or depthwise) and Gemms (transB=1) with initializers as weights.
        seed: Same seed, same factors.
        spread: Of the exponents of two.
    """
    uneven = onnx.ModelProto()
    uneven.CopyFrom(model)
    stored = {tensor.name: tensor for tensor in uneven.graph.initializer}
    generator = np.random.default_rng(seed)
    for node in uneven.graph.node:
        reader = _only_reader(uneven.graph, node) if node.op_type == "Conv" else None
        if reader is not None:
            channels = stored[node.input[1]].dims[0]
            factors = np.exp2(generator.uniform(-spread, spread, channels))
            for name in node.input[1:]:
                _scale(stored[name], 1 / factors)
            _scale(stored[reader.input[1]], factors, axis=0 if _is_depthwise(reader) else 1)
    return uneven


def _only_reader(graph: onnx.GraphProto, node: onnx.NodeProto) -> onnx.NodeProto | None:
    readers = [other for other in graph.node if node.output[0] in other.input]
    if len(readers) != 1 or node.output[0] in {output.name for output in graph.output}:
        return None
    (reader,) = readers
    if reader.op_type in _READ_THROUGH:
        return _only_reader(graph, reader)
    return reader if reader.op_type in {"Conv", "Gemm"} else None


def _is_depthwise(node: onnx.NodeProto) -> bool:
    return any(attribute.name == "group" and attribute.i > 1 for attribute in node.attribute)


def _scale(tensor: onnx.TensorProto, factors: npt.NDArray[np.float64], axis: int = 0) -> None:
    values = numpy_helper.to_array(tensor).astype(np.float64)
    shape = [-1 if dim == axis else 1 for dim in range(values.ndim)]
    scaled = (values * factors.reshape(shape)).astype(np.float32)
    tensor.CopyFrom(numpy_helper.from_array(scaled, tensor.name))
