"""Evaluate the operators that only TensorRT's parser knows (:mod:`qdqtool.models.graph.index.tensorrt_operators`).

In dynamic quantization, block scales follow TensorRT's documentation: the largest magnitude divided by the largest
code. For MXFP8 the scale is rounded up to a power of two. For NVFP4 it is rounded to fp8, under one common scale.
Source: TensorRT, "Quantization Schemes" and the operator page "DynamicQuantize".
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from qdqtool.errors import ArgumentError
from qdqtool.models.graph.index.qdq import FIRST_OPSET_WITH_AXIS
from qdqtool.models.graph.index.tensorrt_operators import (
    BLOCK_DEQUANTIZE,
    BLOCK_QUANTIZE,
    DYNAMIC,
    FP4_BLOCK,
    FP4_DYNAMIC,
    MX_BLOCK,
    MX_DEQUANTIZE,
    MX_DYNAMIC,
    MX_QUANTIZE,
    attributes_of,
)
from qdqtool.numerics import formats
from qdqtool.numerics.affine import dequantize, quantize
from qdqtool.numerics.derive import ScaleRule, scale_from_tensor
from qdqtool.numerics.dtypes import FLOAT8E8M0, FLOAT32, FLOAT64, REAL_TYPES, Array
from qdqtool.numerics.granularity import Blocked, Granularity, PerAxis, PerTensor
from qdqtool.numerics.number_format import NumberFormat
from qdqtool.numerics.scheme import QuantParams, QuantScheme

Inputs = Sequence[Array | None]
Attributes = Mapping[str, Any]
ONE_EACH = Blocked(-1, 1)
"""The granularity with one scale for each element."""


def is_evaluated(node: onnx.NodeProto) -> bool:
    """Return whether :func:`evaluate` supports the operator."""
    return node.op_type in _EVALUATED


def evaluate(node: onnx.NodeProto, inputs: Inputs, opset: int) -> tuple[Array, ...]:
    """Return the outputs of a node.

    Args:
        node: The node; the domain does not matter.
        inputs: Input arrays; None for an absent input.
        opset: Version of the default domain; the parser derives the default axis of Q and DQ from it.

    Raises:
        ArgumentError: An input or attribute is absent or does not fit.
    """
    if not inputs or inputs[0] is None:
        raise ArgumentError("its data is absent")
    given = attributes_of(node)
    if node.op_type in {MX_QUANTIZE, MX_DEQUANTIZE}:
        given.setdefault("axis", 1 if opset >= FIRST_OPSET_WITH_AXIS else 0)
    return _EVALUATED[node.op_type](given, inputs)


def _mx_quantize(given: Attributes, inputs: Inputs) -> tuple[Array, ...]:
    data, scale = _data(inputs), _powers(_scale(inputs))
    return (
        quantize(
            data,
            scale,
            _format(given, "output_dtype", TensorProto.FLOAT8E4M3FN),
            inferred_granularity(data, scale, given["axis"]),
        ),
    )


def _mx_dequantize(given: Attributes, inputs: Inputs) -> tuple[Array, ...]:
    codes, scale = _codes(inputs), _powers(_scale(inputs))
    made = _dtype(given, "output_dtype", TensorProto.FLOAT)
    return (dequantize(codes, scale, inferred_granularity(codes, scale, given["axis"]), output_dtype=made),)


def _mx_dynamic(given: Attributes, inputs: Inputs) -> tuple[Array, ...]:
    data, blocks = _data(inputs), Blocked(given.get("axis", -1), given.get("block_size") or MX_BLOCK)
    scheme = QuantScheme(_known(TensorProto.FLOAT8E4M3FN), blocks)
    scale = scale_from_tensor(data, scheme, ScaleRule(dtype=FLOAT8E8M0)).scale
    return quantize(data, scale, scheme.format, blocks), scale.view(np.uint8)


def _fp4_dynamic(given: Attributes, inputs: Inputs) -> tuple[Array, ...]:
    data, blocks = _data(inputs), Blocked(given.get("axis", 1), given.get("block_size") or FP4_BLOCK)
    inner = QuantScheme(_known(TensorProto.FLOAT8E4M3FN), PerTensor())
    scheme = QuantScheme(_known(TensorProto.FLOAT4E2M1), blocks, scale_scheme=inner)
    outer = _scale(inputs).astype(FLOAT32)
    if outer.size != 1:
        raise ArgumentError(f"its scale of scales has {outer.size} elements; legal: one")
    outer = outer.reshape(())
    scale = scale_from_tensor(data, scheme, outer=QuantParams(inner, outer)).scale
    return quantize(data, scale, scheme.format, blocks), quantize(scale, outer, inner.format, inner.granularity)


def _dynamic(given: Attributes, inputs: Inputs) -> tuple[Array, ...]:
    data, fmt = _data(inputs), _format(given, "output_type", TensorProto.FLOAT8E4M3FN)
    shape = _block_shape(given, data)
    counts = _counts(shape, data.shape)
    whole = [(0, count * block - size) for size, count, block in zip(data.shape, counts, shape, strict=True)]
    # Dimensions that count blocks alternate with dimensions inside a block.
    parts = [extent for pair in zip(counts, shape, strict=True) for extent in pair]
    magnitudes = np.abs(data.astype(FLOAT32))
    magnitudes[~np.isfinite(magnitudes)] = 0
    largest = np.pad(magnitudes, whole).reshape(parts).max(axis=tuple(range(1, len(parts), 2)), initial=0)
    real = np.where(largest > 0, largest / np.float32(fmt.high), np.float32(1))
    scale = real.astype(_dtype(given, "scale_type", TensorProto.FLOAT))
    return quantize(data, _spread(scale, shape, data.shape), fmt, ONE_EACH), scale


def _block_quantize(given: Attributes, inputs: Inputs) -> tuple[Array, ...]:
    data, fmt = _data(inputs), _format(given, "output_dtype", TensorProto.FLOAT8E4M3FN)
    return (quantize(data, _spread(_scale(inputs), _block_shape(given, data), data.shape), fmt, ONE_EACH),)


def _block_dequantize(given: Attributes, inputs: Inputs) -> tuple[Array, ...]:
    codes, scale = _codes(inputs), _scale(inputs)
    made = _dtype(given, "output_dtype") or scale.dtype
    return (dequantize(codes, _spread(scale, _block_shape(given, codes), codes.shape), ONE_EACH, output_dtype=made),)


def _data(inputs: Inputs) -> Array:
    assert inputs[0] is not None
    return inputs[0]


def _codes(inputs: Inputs) -> Array:
    codes = _data(inputs)
    if codes.dtype in {*REAL_TYPES, FLOAT64}:
        raise ArgumentError(f"it reads {codes.dtype} values, not codes: an unfinished export of Model Optimizer?")
    return codes


def _scale(inputs: Inputs) -> Array:
    if len(inputs) < 2 or inputs[1] is None:
        raise ArgumentError("its scale is absent")
    return inputs[1]


def _powers(scale: Array) -> Array:
    """Convert exponents to powers of two; scales of MXFP8 may be stored as exponents (uint8)."""
    return scale.view(FLOAT8E8M0) if scale.dtype == np.uint8 else scale


def inferred_granularity(data: Array, scale: Array, axis: int) -> Granularity:
    """Return the granularity that the parser infers from the shapes alone; it ignores the block size.

    Args:
        data: The data or codes.
        scale: The scale of the data.
        axis: The axis of a one-dimensional scale with several values.

    Raises:
        ArgumentError: The rank of the scale is neither 1 nor the rank of the data.
    """
    if scale.size == 1:
        return PerTensor()
    if scale.ndim == 1 and data.ndim > 1:
        return PerAxis(axis)
    if scale.ndim != data.ndim or 0 in scale.shape:
        raise ArgumentError(f"scale has shape {list(scale.shape)}, data {list(data.shape)}")
    pairs = list(zip(data.shape, scale.shape, strict=True))
    blocked = next((at for at, (size, count) in enumerate(pairs) if size != count), data.ndim - 1)
    return Blocked(blocked, -(-pairs[blocked][0] // pairs[blocked][1]))


def _block_shape(given: Attributes, data: Array) -> tuple[int, ...]:
    """Return the extents of a block of the data; -1 in the attribute means the whole dimension."""
    shape = given.get("block_shape") or ()
    if len(shape) != data.ndim:
        raise ArgumentError(f"block_shape is {list(shape)}, and the data has {data.ndim} dimensions")
    if any(block < 1 and block != -1 for block in shape):
        raise ArgumentError(f"block_shape is {list(shape)}; legal: extents from 1, and -1 for a whole dimension")
    sizes = [max(size, 1) for size in data.shape]
    return tuple(size if block == -1 else min(block, size) for block, size in zip(shape, sizes, strict=True))


def _counts(block_shape: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the number of blocks along each axis; the last block may be shorter."""
    return tuple(-(-size // block) for block, size in zip(block_shape, shape, strict=True))


def _spread(scale: Array, block_shape: tuple[int, ...], shape: tuple[int, ...]) -> Array:
    """Repeat each scale over the elements of its block."""
    needed = _counts(block_shape, shape)
    if scale.shape != needed:
        words = f"blocks {list(block_shape)} of data {list(shape)} need {list(needed)}"
        raise ArgumentError(f"scale has shape {list(scale.shape)}, and {words}")
    for axis, block in enumerate(block_shape):
        scale = np.repeat(scale, block, axis=axis)
    return scale[tuple(map(slice, shape))]


def _format(given: Attributes, name: str, default: int) -> NumberFormat:
    return _known(given.get(name) or default)


def _known(onnx_type: int) -> NumberFormat:
    found = formats.by_onnx_type(onnx_type)
    if found is None:
        raise ArgumentError(f"its type {onnx_type} is no quantized type")
    return found


def _dtype(given: Attributes, name: str, default: int = 0) -> np.dtype[Any] | None:
    onnx_type = given.get(name) or default
    return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(onnx_type)) if onnx_type else None


_EVALUATED: Mapping[str, Callable[[Attributes, Inputs], tuple[Array, ...]]] = {
    MX_QUANTIZE: _mx_quantize,
    MX_DEQUANTIZE: _mx_dequantize,
    MX_DYNAMIC: _mx_dynamic,
    FP4_DYNAMIC: _fp4_dynamic,
    DYNAMIC: _dynamic,
    BLOCK_QUANTIZE: _block_quantize,
    BLOCK_DEQUANTIZE: _block_dequantize,
}
