"""A model converted to float16, looked at by onnx's checker and ONNX Runtime before a test sees it."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto

from qdqtool.models.graph.io.save import inlined
from qdqtool.models.graph.model import Model
from qdqtool.models.options import HalfType
from qdqtool.models.transforms.half import HalfConversion, convert_to_half
from qdqtool.models.transforms.taps import TensorKey

Arrays = dict[str, NDArray[Any]]


def in_half(
    model: onnx.ModelProto, measured: Mapping[TensorKey, float] | None = None, half: HalfType = HalfType.FP16
) -> tuple[onnx.ModelProto, HalfConversion]:
    """The converted model as it would be written, and what was done."""
    converted = convert_to_half(Model(model), half, measured)
    written = inlined(converted.model)
    assert written is not None
    require_valid(written)
    return written, converted.report


def require_valid(model: onnx.ModelProto) -> None:
    """Every type agrees with every other, by strict shape inference, and no Cast stands behind a DQ."""
    onnx.checker.check_model(model, full_check=True)
    onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
    assert not casts_behind_a_dq(model)


def casts_behind_a_dq(model: onnx.ModelProto) -> list[str]:
    """Names of Casts that read what a DQ makes."""
    dequantized = {node.output[0] for node in model.graph.node if node.op_type == "DequantizeLinear"}
    return [node.name for node in model.graph.node if node.op_type == "Cast" and node.input[0] in dequantized]


def types_of(model: onnx.ModelProto) -> dict[str, str]:
    """The element type of every tensor of the main graph, by onnx's own inference: ``FLOAT16``, ``INT8``."""
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True).graph
    found = {tensor.name: tensor.data_type for tensor in inferred.initializer}
    for value in (*inferred.value_info, *inferred.input, *inferred.output):
        found[value.name] = value.type.tensor_type.elem_type
    return {name: TensorProto.DataType.Name(kind) for name, kind in found.items()}


def outputs_of(model: onnx.ModelProto, feeds: Arrays) -> Arrays:
    """What ONNX Runtime makes of a model, with every optimization off."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


def sqnr_db(reference: NDArray[Any], found: NDArray[Any]) -> float:
    """Signal over noise in dB; infinite where both are equal."""
    signal = reference.astype(np.float64)
    noise = float(np.sum((signal - found.astype(np.float64)) ** 2))
    return float(10 * np.log10(np.sum(signal**2) / noise)) if noise else float("inf")
