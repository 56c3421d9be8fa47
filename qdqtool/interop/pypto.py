"""``pypto.dequantize`` on NumPy arrays.

pypto differs from all other systems in two ways. ``axis`` is the dimension that is *collapsed*: with ``-1`` each row of
``[..., row, col]`` has its own scale, with ``-2`` each column. And the zero point is a float that is *added*:
``(float(input) + zero_points) * scale``, all in float32.

Source: the reference page. pypto's own kernel comments and tests contradict it: they subtract. This module follows the
page unless ``zero_point_sign="subtract"``.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from qdqtool.errors import ArgumentError
from qdqtool.interop._arguments import codes_of, real_type, scale_like
from qdqtool.interop._graph import ChainNode, Dequantize, GraphPiece
from qdqtool.numerics.dtypes import FLOAT32, FLOAT64, Array
from qdqtool.numerics.granularity import Blocked, Granularity, PerAxis
from qdqtool.numerics.number_format import NumberFormat

__all__ = ["FORMULAS", "dequantize", "dequantize_graph"]

Sign = Literal["add", "subtract"]

FORMULAS: dict[Sign, str] = {
    "add": "pypto.dequantize: (float(input) + zero_points) * scale, according to its reference page",
    "subtract": "pypto.dequantize: (float(input) - zero_points) * scale, according to its kernels and tests",
}
"""Text for each sign, which :func:`dequantize_graph` writes into ``doc`` and into the first node."""

MAX_ELEMENTS = 2**31 - 1


def dequantize(
    input: ArrayLike,  # noqa: A002
    scale: ArrayLike,
    otype: DTypeLike,
    axis: int,
    zero_points: ArrayLike | None = None,
    *,
    zero_point_sign: Literal["add", "subtract"] = "add",
) -> NDArray[Any]:
    """Dequantize: ``(float(input) + zero_points) * scale``, each operation rounded to float32.

    Args:
        input: int8 or int16 codes of rank 2 to 4, not empty.
        scale: float32, finite and positive, in the input's shape without ``axis``, or with extent 1 for ``axis``.
        otype: float32.
        axis: The collapsed dimension: one of the last two.
        zero_points: float32 in the scale's shape, may be fractional; None for zero.
        zero_point_sign: ``add`` as on the reference page, or ``subtract``; :data:`FORMULAS` has both formulas.

    Returns:
        float32 values of the input's shape.

    Raises:
        ArgumentError: An argument is illegal; the message names it, its value and the legal values.
    """
    codes, _ = _codes(input)
    _check_otype(otype)
    collapsed = _axis(axis, codes.ndim)
    step = np.expand_dims(_parameter(scale_like(scale, FLOAT32), "scale", codes.shape, collapsed), collapsed)
    distance = codes.astype(FLOAT32)
    if zero_points is not None:
        distance += np.expand_dims(_zero(zero_points, codes.shape, collapsed, zero_point_sign), collapsed)
    result: Array = distance * step
    return result


def dequantize_graph(
    input: ArrayLike,  # noqa: A002
    scale: ArrayLike,
    otype: DTypeLike,
    axis: int,
    zero_points: ArrayLike | None = None,
    *,
    zero_point_sign: Literal["add", "subtract"] = "add",
) -> GraphPiece:
    """Return the ONNX nodes of the same :func:`dequantize` call; only the shape and type of ``input`` are used.

    The nodes are a DequantizeLinear if ONNX can express the zero point, that is, if its negative is an integer in the
    range of the codes. It is per-axis for rank 2, otherwise blocked with one block over the whole axis. Other zero
    points give Cast, Add and Mul. ``doc`` of the piece describes the sign of the zero points.
    """
    codes, fmt = _codes(input)
    _check_otype(otype)
    collapsed = _axis(axis, codes.ndim)
    step = _parameter(scale_like(scale, FLOAT32), "scale", codes.shape, collapsed)
    if zero_points is None:
        return _linear(codes, fmt, collapsed, step, None)
    added, doc = _zero(zero_points, codes.shape, collapsed, zero_point_sign), FORMULAS[zero_point_sign]
    if np.array_equal(added, np.rint(added)) and (-added >= fmt.low).all() and (-added <= fmt.high).all():
        return replace(_linear(codes, fmt, collapsed, step, (-added).astype(fmt.dtype)), doc=doc)
    constants = {name: np.expand_dims(array, collapsed) for name, array in (("added", added), ("scale", step))}
    parts = (ChainNode("Cast", (), {"to": 1}), ChainNode("Add", ("added",)), ChainNode("Mul", ("scale",)))
    return GraphPiece(parts, constants, fmt.onnx_type, 1, 13, doc)


def _linear(codes: Array, fmt: NumberFormat, collapsed: int, scale: Array, zero: Array | None) -> GraphPiece:
    granularity: Granularity = PerAxis(1 - collapsed)
    if codes.ndim > 2:
        granularity = Blocked(collapsed, codes.shape[collapsed])
        scale = np.expand_dims(scale, collapsed)
        zero = None if zero is None else np.expand_dims(zero, collapsed)
    return Dequantize(codes, scale, granularity, FLOAT32, fmt, zero).graph()


def _codes(q: ArrayLike) -> tuple[Array, NumberFormat]:
    codes, fmt = codes_of(q, "input", ("int8", "int16"))
    if not 2 <= codes.ndim <= 4:
        raise ArgumentError(f"input has rank {codes.ndim}; legal: 2 to 4")
    if not 0 < math.prod(codes.shape) <= MAX_ELEMENTS:
        raise ArgumentError(f"input has {codes.size} elements; legal: 1 to {MAX_ELEMENTS}")
    return codes, fmt


def _check_otype(otype: DTypeLike) -> None:
    if real_type(otype, "otype") != FLOAT32:
        raise ArgumentError(f"otype is {otype}; legal: float32")


def _axis(axis: int, rank: int) -> int:
    if axis not in {-1, -2, rank - 1, rank - 2}:
        raise ArgumentError(f"axis is {axis}; legal for rank {rank}: -1, -2, {rank - 1}, {rank - 2}")
    return axis % rank


def _zero(zero_points: ArrayLike, shape: tuple[int, ...], collapsed: int, sign: Sign) -> Array:
    """Return the zero point to be added, as float32 without the collapsed axis."""
    if sign not in {"add", "subtract"}:
        raise ArgumentError(f"zero_point_sign is {sign}; legal: add, subtract")
    zero = np.asarray(zero_points)
    if zero.dtype.kind in "iu" or zero.dtype == FLOAT64:
        zero = zero.astype(FLOAT32)
    if zero.dtype != FLOAT32:
        raise ArgumentError(f"zero_points has type {zero.dtype}; legal: float32")
    if not np.isfinite(zero).all():
        raise ArgumentError("zero_points holds infinity or NaN; every zero point must be finite")
    found = _parameter(zero, "zero_points", shape, collapsed)
    return -found if sign == "subtract" else found


def _parameter(array: Array, name: str, shape: tuple[int, ...], collapsed: int) -> Array:
    """Return a scale or zero point without the collapsed axis, which may be given with extent 1, as on the page."""
    without = shape[:collapsed] + shape[collapsed + 1 :]
    kept = (*shape[:collapsed], 1, *shape[collapsed + 1 :])
    if array.shape not in {without, kept}:
        raise ArgumentError(f"{name} has shape {list(array.shape)}; legal: {list(without)}, {list(kept)}")
    return array.reshape(without)


def __dir__() -> list[str]:
    return sorted(__all__)
