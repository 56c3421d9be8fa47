"""Compare the constants of two Q/DQ steps."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from qdqtool.errors import ArgumentError
from qdqtool.models.diff.matching import QdqStep, Side
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.graph.index.view import Value
from qdqtool.models.targets import type_name
from qdqtool.numerics import formats
from qdqtool.numerics.affine import quantize
from qdqtool.numerics.dtypes import Array
from qdqtool.numerics.granularity import Blocked, Granularity, PerAxis, PerTensor


@dataclass(frozen=True, slots=True)
class Change:
    """One difference between two Q/DQ pairs.

    Attributes:
        what: ``type``, ``granularity``, ``axis``, ``block_size``, ``scale``, ``zero_point``, ``codes`` or ``form``.
        before: The value in the first model, for display.
        after: The value in the second model, for display.
        ratio: For scales: the smallest and largest quotient after/before. None for other differences, and if the shapes
            of the scales differ.
    """

    what: str
    before: str
    after: str
    ratio: tuple[float, float] | None = None


def changes(before: Side, first: QdqStep, after: Side, second: QdqStep) -> tuple[Change, ...]:
    """Return the differences between two steps at the same place.

    A weight may be stored as codes before a DQ or as float before Q and DQ. Two such weights are equal if codes, scales
    and zero points are equal.
    """
    found = [*_node_changes(before, first.main, after, second.main)]
    if first.quantize is not None and second.quantize is not None and not found:
        found += _node_changes(before, first.quantize, after, second.quantize)
    old, new = form(before, first), form(after, second)
    if old != new:
        found.append(Change("form", old, new))
    if not found:
        found += _code_changes(before, first, after, second)
    return tuple(found)


def is_weight(side: Side, step: QdqStep) -> bool:
    """Return whether a step quantizes a constant."""
    return step.source is not None and side.index.constants.is_constant(step.source)


def granularity_name(granularity: Granularity | None) -> str:
    """Return ``per-tensor``, ``per-axis``, ``blocked`` or ``unknown``."""
    return {PerTensor: "per-tensor", PerAxis: "per-axis", Blocked: "blocked"}.get(type(granularity), "unknown")


def kind(entry: QdqNode) -> str:
    """Return the name of the quantized type."""
    return type_name(entry.quantized_type) if entry.quantized_type is not None else "unknown"


def _node_changes(before: Side, first: QdqNode, after: Side, second: QdqNode) -> Iterator[Change]:
    old, new = first.granularity, second.granularity
    pairs = {
        "type": (kind(first), kind(second)),
        "granularity": (granularity_name(old), granularity_name(new)),
        "axis": (_axis(before, first), _axis(after, second)),
        "block_size": (_block_size(old), _block_size(new)),
    }
    for what, (was, now) in pairs.items():
        if was is not None and now is not None and was != now:
            yield Change(what, str(was), str(now))
    yield from _scale_change(_array(before, first.scale), _array(after, second.scale))
    yield from _zero_change(_array(before, first.zero_point), _array(after, second.zero_point), first, second)


def _axis(side: Side, entry: QdqNode) -> int | None:
    if not isinstance(entry.granularity, PerAxis | Blocked):
        return None
    shape = side.index.types.shape(entry.data) if entry.data is not None else None
    if shape is None and entry.output is not None:
        shape = side.index.types.shape(entry.output)
    return entry.axis % len(shape) if shape and entry.axis < 0 else entry.axis


def _block_size(granularity: Granularity | None) -> int | None:
    return granularity.block_size if isinstance(granularity, Blocked) else None


def _scale_change(old: Array | None, new: Array | None) -> Iterator[Change]:
    if old is None or new is None:
        if (old is None) != (new is None):
            yield Change("scale", _span(old), _span(new))
        return
    first, second = old.astype(np.float64), new.astype(np.float64)
    if first.size == second.size == 1:
        first, second = first.reshape(()), second.reshape(())
    if first.shape != second.shape:
        yield Change("scale", f"shape {list(first.shape)}", f"shape {list(second.shape)}")
    elif not np.array_equal(first, second, equal_nan=True):
        with np.errstate(all="ignore"):
            quotients = second / first
        yield Change("scale", _span(old), _span(new), (float(quotients.min()), float(quotients.max())))


def _zero_change(old: Array | None, new: Array | None, first: QdqNode, second: QdqNode) -> Iterator[Change]:
    was = np.zeros(()) if first.zero_point is None else old
    now = np.zeros(()) if second.zero_point is None else new
    if was is None or now is None:
        if (was is None) != (now is None):
            yield Change("zero_point", _span(was), _span(now))
        return
    was, now = was.astype(np.float64), now.astype(np.float64)
    try:
        same = bool(np.all(was == now))
    except ValueError:
        # The shapes cannot be broadcast together.
        same = False
    if not same:
        yield Change("zero_point", _span(was), _span(now))


def form(side: Side, step: QdqStep) -> str:
    """Return ``weight`` for constants in either form, otherwise ``pair``, ``Q alone`` or ``DQ alone``."""
    if is_weight(side, step) and step.dequantize is not None:
        return "weight"
    if step.dequantize is None:
        return "Q alone"
    return "pair" if step.quantize is not None else "DQ alone"


def _code_changes(before: Side, first: QdqStep, after: Side, second: QdqStep) -> Iterator[Change]:
    # Equal weights with equal parameters have equal codes, so large weights need not be quantized.
    if _is_same(_array(before, first.source), _array(after, second.source)):
        return
    codes, others = _codes(before, first), _codes(after, second)
    if codes is None or others is None:
        if (codes is None) != (others is None):
            yield Change("codes", _known(codes), _known(others))
    elif codes.shape != others.shape:
        yield Change("codes", f"shape {list(codes.shape)}", f"shape {list(others.shape)}")
    else:
        # Bits are compared: NaN codes of float8 are equal to themselves.
        bits = np.dtype(f"u{codes.dtype.itemsize}")
        count = int(np.count_nonzero(np.ascontiguousarray(codes).view(bits) != np.ascontiguousarray(others).view(bits)))
        if count:
            yield Change("codes", f"{codes.size} codes", f"{count} of them differ")


def _is_same(old: Array | None, new: Array | None) -> bool:
    if old is None or new is None or old.dtype != new.dtype or old.shape != new.shape:
        return False
    return old.tobytes() == new.tobytes()


def _known(codes: Array | None) -> str:
    return "unknown" if codes is None else f"{codes.size} codes"


def _codes(side: Side, step: QdqStep) -> Array | None:
    stored = _array(side, step.source)
    entry = step.quantize
    if entry is None or stored is None:
        return stored
    scale, zero = _array(side, entry.scale), _array(side, entry.zero_point)
    fmt = formats.by_onnx_type(entry.quantized_type or 0)
    if scale is None or fmt is None or entry.granularity is None or (zero is None and entry.zero_point is not None):
        return None
    if isinstance(entry.granularity, PerTensor):
        scale, zero = scale.reshape(()), None if zero is None else zero.reshape(())
    try:
        return quantize(stored, scale, fmt, entry.granularity, zero)
    except ArgumentError:
        # The node violates the specification; `validate` reports how.
        return None


def _array(side: Side, value: Value | None) -> Array | None:
    return side.index.constants.array(value) if value is not None else None


def _span(array: Array | None) -> str:
    if array is None:
        return "computed"
    values = array.astype(np.float64)
    if not values.size:
        return "empty"
    low, high = float(values.min()), float(values.max())
    return f"{low:.6g}" if low == high else f"{low:.6g} to {high:.6g}"
