"""How much preparing a float model may change its outputs: what rounding explains, in the type of the model."""

from typing import Final

from onnx import TensorProto

from qdqtool.graph.io.tensors import iter_tensors
from qdqtool.graph.model import Model

GATE_LIMIT: Final = 1e-5
"""Largest difference of any output relative to its largest magnitude: some 80 roundings of float32."""

HALF_GATE_LIMIT: Final = 2.0**-8
"""The same where weights are float16 and are rounded to it again: some 8 roundings, and half a step of int8. The real
models in float16 differ by up to 1e-3."""


def gate_limit(model: Model) -> float:
    """The limit for a model."""
    half = any(tensor.data_type == TensorProto.FLOAT16 for tensor in iter_tensors(model.proto))
    return HALF_GATE_LIMIT if half else GATE_LIMIT
