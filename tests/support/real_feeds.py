"""Inputs for the real models."""

from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper

_SILERO: dict[str, tuple[int, ...]] = {"state": (2, 1, 128), "input": (1, 576), "sr": ()}


def real_feeds(model: onnx.ModelProto) -> dict[str, NDArray[Any]]:
    """Seeded inputs for one of the real models; a free batch is 1, other free dimensions are 64."""
    random = np.random.default_rng(5)
    stored = {tensor.name for tensor in model.graph.initializer}
    fed = [value for value in model.graph.input if value.name not in stored]
    speech = {value.name for value in fed} == set(_SILERO)
    feeds: dict[str, NDArray[Any]] = {}
    for value in fed:
        kind = value.type.tensor_type
        dims = [dim.dim_value or (64 if index else 1) for index, dim in enumerate(kind.shape.dim)]
        shape = _SILERO[value.name] if speech else tuple(dims)
        is_float = kind.elem_type == TensorProto.FLOAT
        array = random.standard_normal(shape) if is_float else random.integers(0, 255, shape)
        sampling_rate = speech and value.name == "sr"
        feeds[value.name] = np.asarray(
            16000 if sampling_rate else array, helper.tensor_dtype_to_np_dtype(kind.elem_type)
        )
    return feeds
