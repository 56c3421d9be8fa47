"""The small operators that constant folding supports, on NumPy arrays.

Each function gets the node and its inputs (None for an absent input). For inputs that it cannot fold it raises
``ValueError``, ``TypeError`` or another error that :mod:`qdqtool.models.graph.index.constants` catches.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from qdqtool.models.graph.index.view import NodeView
from qdqtool.numerics import formats
from qdqtool.numerics.affine import dequantize
from qdqtool.numerics.granularity import Blocked, Granularity, as_onnx_reads

Array = npt.NDArray[np.generic]

MAX_FOLDED_ELEMENTS = 1 << 24
"""Largest input or result, in elements, of a chain that is folded. Initializers are read at any size."""

Inputs = list[Any]


def _cast(node: NodeView, inputs: Inputs) -> Any:
    return inputs[0].astype(onnx.helper.tensor_dtype_to_np_dtype(node.attribute("to")))


def _reshape(node: NodeView, inputs: Inputs) -> Any:
    wanted = [int(dim) for dim in inputs[1]]
    if not node.attribute("allowzero", 0):
        wanted = [inputs[0].shape[index] if dim == 0 else dim for index, dim in enumerate(wanted)]
    return inputs[0].reshape(wanted)


def axes(node: NodeView, inputs: Inputs) -> tuple[int, ...] | None:
    """Return the axes of a node from its second input or its attribute, or None if it has neither."""
    found = inputs[1] if len(inputs) > 1 and inputs[1] is not None else node.attribute("axes")
    return None if found is None else tuple(int(axis) for axis in found)


def _unsqueeze(node: NodeView, inputs: Inputs) -> Any:
    given: Any = axes(node, inputs)  # without them, NumPy raises a TypeError
    return np.expand_dims(inputs[0], given)


def _squeeze(node: NodeView, inputs: Inputs) -> Any:
    return np.squeeze(inputs[0], axes(node, inputs))


def _flatten(node: NodeView, inputs: Inputs) -> Any:
    axis = node.attribute("axis", 1)
    shape = inputs[0].shape
    return inputs[0].reshape(int(np.prod(shape[:axis], dtype=np.int64)), -1)


def _gather(node: NodeView, inputs: Inputs) -> Any:
    data, indices = inputs
    axis = node.attribute("axis", 0)
    if indices.size * (data.size // max(data.shape[axis], 1)) > max(MAX_FOLDED_ELEMENTS, data.size):
        raise ValueError("the indices are not foldable")
    return np.take(data, indices, axis=axis)


def _concat(node: NodeView, inputs: Inputs) -> Any:
    return np.concatenate(inputs, axis=node.attribute("axis", 1))  # the default of opset 1 to 3; required since


def _constant_of_shape(node: NodeView, inputs: Inputs) -> Any:
    shape = tuple(int(dim) for dim in inputs[0])
    # dtype=object: Python integers do not overflow; int64 would wrap to a small or negative product.
    if any(dim < 0 for dim in shape) or np.prod(np.array(shape, dtype=object)) > MAX_FOLDED_ELEMENTS:
        raise ValueError("the shape is not foldable")
    fill = node.attribute("value")
    filler = onnx.numpy_helper.to_array(fill) if fill is not None else np.zeros(1, np.float32)
    return np.full(shape, filler.reshape(-1)[0])


def _expand(_node: NodeView, inputs: Inputs) -> Any:
    shape = np.broadcast_shapes(inputs[0].shape, tuple(int(dim) for dim in inputs[1]))
    if np.prod(np.array(shape, dtype=object)) > MAX_FOLDED_ELEMENTS:
        raise ValueError("the shape is not foldable")
    return np.broadcast_to(inputs[0], shape)


def _dequantize(node: NodeView, inputs: Inputs) -> Any:
    codes, scale = inputs[0], inputs[1]
    zero_point = inputs[2] if len(inputs) > 2 else None
    if formats.by_dtype(codes.dtype) is None and codes.dtype != np.int32:
        raise ValueError("not a quantized type")
    output = node.attribute("output_dtype", 0)
    dtype = onnx.helper.tensor_dtype_to_np_dtype(output) if output else None
    return dequantize(codes, scale, _granularity(node, scale, codes.shape), zero_point, output_dtype=dtype)


def _granularity(node: NodeView, scale: Array, shape: tuple[int, ...]) -> Granularity:
    axis, block_size = node.attribute("axis", 1), node.attribute("block_size", 0)
    found = as_onnx_reads(scale.shape, len(shape), axis, block_size)
    # TensorRT ignores block_size and uses extent / scale extent. Models without block_size exist, but ONNX requires it.
    return found if found is not None else Blocked(axis, -(-shape[axis] // scale.shape[axis]))


def _shape(node: NodeView, inputs: Inputs) -> Any:
    return np.asarray(inputs[0].shape, np.int64)[node.attribute("start", 0) : node.attribute("end")]


def _slice(node: NodeView, inputs: Inputs) -> Any:
    given = [*inputs[1:], None, None, None, None][:4] if len(inputs) > 1 else _old_slice(node)
    starts, ends, axes, steps = (None if part is None else [int(number) for number in part] for part in given)
    if starts is None or ends is None:
        raise ValueError("Slice needs starts and ends")
    cuts = [slice(None)] * inputs[0].ndim
    for position, axis in enumerate(axes if axes is not None else range(len(starts))):
        step = steps[position] if steps is not None else 1
        cuts[axis] = _cut(starts[position], ends[position], step, inputs[0].shape[axis])
    return inputs[0][tuple(cuts)]


def _old_slice(node: NodeView) -> list[Any]:
    """Return the attributes that replace the inputs of Slice in opsets 1 to 9."""
    return [node.attribute("starts"), node.attribute("ends"), node.attribute("axes"), None]


def _cut(start: int, end: int, step: int, extent: int) -> slice:
    """Return a Python slice, clamped as ONNX does: with a negative step, no bound is before the first element."""
    if step < 0:
        return slice(max(start, -extent), None if end < -extent else end, step)
    return slice(start, end, step)


def _range(_node: NodeView, inputs: Inputs) -> Any:
    start, limit, delta = (array.reshape(()) for array in inputs)
    if not 0 <= (limit - start) / delta <= MAX_FOLDED_ELEMENTS:
        raise ValueError("the range is not foldable")
    return np.arange(start, limit, delta, dtype=start.dtype)


def _reduce(function: Callable[..., Any]) -> Callable[[NodeView, Inputs], Any]:
    def fold(node: NodeView, inputs: Inputs) -> Any:
        given = axes(node, inputs)
        if given is None and node.attribute("noop_with_empty_axes", 0):
            return inputs[0]
        # NumPy sums and multiplies int32 to int64, but ONNX keeps the type: convert the result back.
        keep = bool(node.attribute("keepdims", 1))
        return np.asarray(function(inputs[0], axis=given, keepdims=keep)).astype(inputs[0].dtype)

    return fold


def _elementwise(function: Callable[..., Any]) -> Callable[[NodeView, Inputs], Any]:
    def fold(_node: NodeView, inputs: Inputs) -> Any:
        return function(*inputs)

    return fold


def _divide(left: Array, right: Array) -> Any:
    if left.dtype.kind not in "iu":
        return np.divide(left, right)
    if not right.all():
        raise ValueError("an integer is divided by zero")
    # ONNX truncates integer quotients toward zero (-7 / 2 is -3); NumPy's // rounds down (-4).
    quotient, rest = np.divmod(left, right)
    return quotient + ((rest != 0) & (np.less(left, 0) != np.less(right, 0)))


# These functions are not in ops/, because the index folds constants before packages above it are imported. Also, they
# are what operators compute, not properties of operators.
FOLDERS: dict[str, Callable[[NodeView, Inputs], Any]] = {
    "Abs": _elementwise(np.abs),
    "Add": _elementwise(np.add),
    "And": _elementwise(np.logical_and),
    "Cast": _cast,
    "Concat": _concat,
    "ConstantOfShape": _constant_of_shape,
    "DequantizeLinear": _dequantize,
    "Div": _elementwise(_divide),
    "Equal": _elementwise(np.equal),
    "Exp": _elementwise(np.exp),
    "Expand": _expand,
    "Flatten": _flatten,
    "Gather": _gather,
    "Greater": _elementwise(np.greater),
    "GreaterOrEqual": _elementwise(np.greater_equal),
    "Identity": _elementwise(lambda array: array),
    "Less": _elementwise(np.less),
    "LessOrEqual": _elementwise(np.less_equal),
    "Max": _elementwise(lambda *arrays: functools.reduce(np.maximum, arrays)),
    "Min": _elementwise(lambda *arrays: functools.reduce(np.minimum, arrays)),
    "Mul": _elementwise(np.multiply),
    "Neg": _elementwise(np.negative),
    "Not": _elementwise(np.logical_not),
    "Or": _elementwise(np.logical_or),
    "Pow": _elementwise(lambda base, power: np.power(base, power).astype(base.dtype)),
    "Range": _range,
    "Reciprocal": _elementwise(lambda array: (1 / array).astype(array.dtype)),
    "ReduceMax": _reduce(np.max),
    "ReduceMin": _reduce(np.min),
    "ReduceProd": _reduce(np.prod),
    "ReduceSum": _reduce(np.sum),
    "Reshape": _reshape,
    "Shape": _shape,
    "Size": _elementwise(lambda array: np.asarray(array.size, np.int64)),
    "Slice": _slice,
    "Sqrt": _elementwise(np.sqrt),
    "Squeeze": _squeeze,
    "Sub": _elementwise(np.subtract),
    "Transpose": lambda node, inputs: np.transpose(inputs[0], node.attribute("perm")),
    "Unsqueeze": _unsqueeze,
    "Where": _elementwise(np.where),
    "Xor": _elementwise(np.logical_xor),
}
