"""The operators that exporters use to compute weights from stored tensors, on NumPy arrays.

Examples are weight normalization (ReduceL2), weight standardization (ReduceMean, BatchNormalization), spectral
normalization and merged low-rank adapters (MatMul), and parts of one stored matrix (Split). Sums are computed in
float64 and rounded once.

Each function follows the contract of :mod:`qdqtool.models.graph.index.folders`. For a node with several outputs it
returns a list.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from qdqtool.models.graph.index import folders
from qdqtool.models.graph.index.view import NodeView

Array = npt.NDArray[np.generic]
Inputs = list[Any]

MOST_PRODUCTS = 1 << 34
"""A matrix product with more multiplications is not folded; this many take about a second."""

_BATCHNORM_OF_CHANNELS, _BATCHNORM_WITH_MODE = 9, 14
"""The first opset with per-channel statistics only, and the first opset with the attribute training_mode."""

_SOFTMAX_OF_ONE_AXIS = 13
"""In earlier opsets, Softmax flattened its input to a matrix."""


def _in_float64(function: Callable[..., Any]) -> Callable[[NodeView, Inputs], Any]:
    """Return a function that computes in float64 and rounds the result to the type of the first input."""

    def fold(_node: NodeView, inputs: Inputs) -> Any:
        _require_float(inputs[0])
        return function(*(array.astype(np.float64) for array in inputs)).astype(inputs[0].dtype)

    return fold


def _reduce(function: Callable[..., Any]) -> Callable[[NodeView, Inputs], Any]:
    """Return a function that reduces in float64. ``function`` gets the array, the axes and ``keepdims``."""

    def fold(node: NodeView, inputs: Inputs) -> Any:
        axes = folders.axes(node, inputs)
        if not axes and node.attribute("noop_with_empty_axes", 0):
            raise ValueError("nothing is reduced, and opsets differ in what is computed then")
        _require_float(inputs[0])
        keep = bool(node.attribute("keepdims", 1))
        found = function(inputs[0].astype(np.float64), axis=axes or None, keepdims=keep)
        return np.asarray(found).astype(inputs[0].dtype)

    return fold


def _require_float(array: Array) -> None:
    if not np.issubdtype(array.dtype, np.floating) and array.dtype.kind != "V":
        raise ValueError("not a float type")


def _l1(array: Array, **how: Any) -> Any:
    return np.abs(array).sum(**how)


def _sum_of_squares(array: Array, **how: Any) -> Any:
    return np.square(array).sum(**how)


def _l2(array: Array, **how: Any) -> Any:
    return np.sqrt(_sum_of_squares(array, **how))


def _lp_normalization(node: NodeView, inputs: Inputs) -> Any:
    norms = {1: _l1, 2: _l2}
    data = inputs[0].astype(np.float64)
    _require_float(inputs[0])
    norm = norms[node.attribute("p", 2)](data, axis=node.attribute("axis", -1), keepdims=True)
    # ONNX defines the result as 0 if the norm is 0.
    return np.where(norm == 0, 0, data / norm).astype(inputs[0].dtype)


def _batch_normalization(node: NodeView, inputs: Inputs) -> Any:
    """Standardize a weight, and return the first output. Exports of BiT and normalizer-free networks use this."""
    # In training mode, mean and variance are computed from the data, over all axes but 1.
    data, scale, bias, mean, variance = inputs
    _require_float(data)
    opset, outputs = node.scope.opset, len(node.proto.output)
    if opset < _BATCHNORM_WITH_MODE and (
        opset < _BATCHNORM_OF_CHANNELS or outputs > 1 or not node.attribute("spatial", 1)
    ):
        raise ValueError("BatchNormalization of this opset tells its mode in another way")
    wide, others = data.astype(np.float64), tuple(axis for axis in range(data.ndim) if axis != 1)
    if node.attribute("training_mode", 0):
        mean, variance = wide.mean(axis=others), wide.var(axis=others)
    shape = [-1 if axis == 1 else 1 for axis in range(data.ndim)]
    scale, bias, mean, variance = (array.astype(np.float64).reshape(shape) for array in (scale, bias, mean, variance))
    made = (wide - mean) / np.sqrt(variance + node.attribute("epsilon", 1e-5)) * scale + bias
    return made.astype(data.dtype)


def _matmul(_node: NodeView, inputs: Inputs) -> Any:
    left, right = inputs
    _require_float(left)
    rows, columns = left.shape[:-1] or (1,), right.shape[-1:] if right.ndim > 1 else (1,)
    batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    elements = math.prod((*batch, rows[-1], *columns))
    if elements > folders.MAX_FOLDED_ELEMENTS or elements * left.shape[-1] > MOST_PRODUCTS:
        raise ValueError("the product is too large to fold")
    return np.matmul(left.astype(np.float64), right.astype(np.float64)).astype(left.dtype)


def _clip(node: NodeView, inputs: Inputs) -> Any:
    data, low, high = [*inputs, None, None][:3]
    if data.dtype.kind not in "iu":
        _require_float(data)
    if any(bound is not None and bound.dtype != data.dtype for bound in (low, high)):
        raise ValueError("the bounds are of another type")
    # Up to opset 10 the bounds are attributes and the data cannot be integers.
    low = node.attribute("min") if low is None else low.reshape(())
    high = node.attribute("max") if high is None else high.reshape(())
    clipped = data if low is None else np.maximum(data, low)
    # If the lower bound is above the upper one, ONNX uses the upper bound, and so does this order of min and max.
    return (clipped if high is None else np.minimum(clipped, high)).astype(data.dtype)


def _softmax(node: NodeView, inputs: Inputs) -> Any:
    if node.scope.opset < _SOFTMAX_OF_ONE_AXIS:
        raise ValueError("Softmax of this opset flattens its input")
    axis, data = node.attribute("axis", -1), inputs[0].astype(np.float64)
    _require_float(inputs[0])
    powers = np.exp(data - data.max(axis=axis, keepdims=True))
    return (powers / powers.sum(axis=axis, keepdims=True)).astype(inputs[0].dtype)


def _tile(_node: NodeView, inputs: Inputs) -> Any:
    repeats = [int(count) for count in inputs[1]]
    if inputs[0].size * math.prod(repeats) > folders.MAX_FOLDED_ELEMENTS or len(repeats) != inputs[0].ndim:
        raise ValueError("the repeats are not foldable")
    return np.tile(inputs[0], repeats)


def _split(node: NodeView, inputs: Inputs) -> Any:
    axis, count = node.attribute("axis", 0), len(node.proto.output)
    extent = inputs[0].shape[axis]
    given = inputs[1] if len(inputs) > 1 and inputs[1] is not None else node.attribute("split")
    # Without sizes, all parts except the last have the same size; before opset 18 all parts do.
    size = -(-extent // count)
    sizes = [size] * (count - 1) + [extent - size * (count - 1)] if given is None else [int(each) for each in given]
    if len(sizes) != count or sum(sizes) != extent or min(sizes) < 0:
        raise ValueError("the parts do not add up")
    return np.split(inputs[0], np.cumsum(sizes)[:-1], axis=axis)


def _sigmoid(array: Any) -> Any:
    # 1 + tanh does not overflow; exp of a large negative number does.
    return 0.5 * (1 + np.tanh(0.5 * array))


def _tri(node: NodeView, inputs: Inputs) -> Any:
    diagonal = int(inputs[1].reshape(())) if len(inputs) > 1 and inputs[1] is not None else 0
    return (np.triu if node.attribute("upper", 1) else np.tril)(inputs[0], diagonal)


def _sum(*arrays: Array) -> Any:
    return functools.reduce(np.add, arrays)


def _mean(*arrays: Array) -> Any:
    return _sum(*arrays) / len(arrays)


WEIGHT_FOLDERS: dict[str, Callable[[NodeView, Inputs], Any]] = {
    "BatchNormalization": _batch_normalization,
    "Ceil": _in_float64(np.ceil),
    "Clip": _clip,
    "Floor": _in_float64(np.floor),
    "Log": _in_float64(np.log),
    "LpNormalization": _lp_normalization,
    "MatMul": _matmul,
    "Mean": _in_float64(_mean),
    "ReduceL1": _reduce(_l1),
    "ReduceL2": _reduce(_l2),
    "ReduceMean": _reduce(np.mean),
    "ReduceSumSquare": _reduce(_sum_of_squares),
    "Round": _in_float64(np.rint),
    "Sigmoid": _in_float64(_sigmoid),
    "Sign": _in_float64(np.sign),
    "Softmax": _softmax,
    "Softplus": _in_float64(lambda array: np.logaddexp(array, 0)),
    "Split": _split,
    "Sum": _in_float64(_sum),
    "Tanh": _in_float64(np.tanh),
    "Tile": _tile,
    "Trilu": _tri,
}

SEVERAL_OUTPUTS = frozenset(["Split"])
"""Operators for which each output is folded."""

AT_ANY_SIZE = frozenset(
    ["Cast", "Clip", "Flatten", "Gather", "Identity", "Reshape", "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze"]
)
"""Operators that are folded at any size, because their results have no more elements than their inputs. Large results
are not kept, because otherwise a large model would be in memory as a whole."""
