"""Constant scales from data: the largest magnitude that each tensor takes, divided by 127."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime

INT8_MAX = np.float32(127)


def activation_scales(
    model: onnx.ModelProto, tensors: Sequence[str], feeds: Mapping[str, npt.NDArray[np.generic]]
) -> dict[str, np.float32]:
    """Per-tensor int8 scales of activations, graph inputs included, over one batch of data.

    Args:
        model: Float model with shapes that take the whole of ``feeds`` at once.
        tensors: Names of float32 tensors.
        feeds: Model inputs by name.
    """
    tapped = onnx.ModelProto()
    tapped.CopyFrom(model)
    inner = [name for name in tensors if name not in feeds]
    tapped.graph.output.extend(onnx.ValueInfoProto(name=name) for name in inner)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(tapped.SerializeToString(), options, ["CPUExecutionProvider"])
    values = {**feeds, **dict(zip(inner, session.run(inner, dict(feeds)), strict=True))}
    return {name: np.float32(np.abs(values[name]).max() / INT8_MAX) for name in tensors}


def weight_scales(weight: npt.NDArray[np.float32], axis: int) -> npt.NDArray[np.float32]:
    """Per-axis int8 scales of a weight: one for each index of ``axis``."""
    others = tuple(dim for dim in range(weight.ndim) if dim != axis)
    return (np.abs(weight).max(axis=others) / INT8_MAX).astype(np.float32)
