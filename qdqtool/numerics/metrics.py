"""Metrics of the difference between two tensors, each one number with a stated formula.

All sums are taken in float64, in pieces, so that float16 data neither overflows nor loses small terms. ``n`` is the
number of elements; ``a`` is the reference. No function here decides what is good enough.

Values that are not finite are counted separately: :func:`nonfinite_mismatches` counts where two tensors disagree about
them. The other metrics are taken over the elements that are finite in both.
"""

import math
from collections.abc import Iterator

import numpy as np

from qdqtool.errors import ArgumentError
from qdqtool.numerics.dtypes import FLOAT64, Array

_PIECE = 1 << 20


def sqnr_db(reference: Array, x: Array) -> float | None:
    """Signal to quantization noise ratio in decibels: ``10 * log10(sum(a**2) / sum((a - x)**2))``.

    Args:
        reference: The signal, of any shape.
        x: The signal with noise, of the same shape.

    Returns:
        The ratio; higher is better, and 6.02 dB is one bit. None where it is undefined: when the two are equal (report
        ``exact`` beside it), and when the reference is zero everywhere or empty (report :func:`max_abs`).
    """
    signal = noise = 0.0
    for a, b in _finite_pairs(reference, x):
        signal += _sum(a * a)
        difference = a - b
        noise += _sum(difference * difference)
    return ratio_db(signal, noise)


def ratio_db(signal: float, noise: float) -> float | None:
    """Return ``10 * log10(signal / noise)`` of two sums of squares; None where one of them is zero."""
    if not signal or not noise:
        return None
    return 10 * (math.log10(signal) - math.log10(noise))


def cosine(reference: Array, x: Array) -> float | None:
    """Cosine of the angle between two tensors: ``sum(a * x) / sqrt(sum(a**2) * sum(x**2))``, from -1 to 1.

    Returns:
        The cosine; None where either tensor is zero everywhere or empty, since a zero vector has no direction.
    """
    both = left = right = 0.0
    for a, b in _finite_pairs(reference, x):
        both += _sum(a * b)
        left += _sum(a * a)
        right += _sum(b * b)
    if not left or not right:
        return None
    return max(-1.0, min(1.0, both / math.sqrt(left * right)))


def max_abs(reference: Array, x: Array) -> float:
    """Largest absolute difference: ``max(abs(a - x))``; 0 for empty tensors."""
    return max((float(np.max(np.abs(a - b), initial=0.0)) for a, b in _finite_pairs(reference, x)), default=0.0)


def max_steps(reference: Array, x: Array, scale: Array) -> float:
    """Largest difference in quantization steps: ``max(abs(a - x) / scale)``; 0 for empty tensors.

    Args:
        reference: Real values, of any shape.
        x: Real values of the same shape.
        scale: Real value of one step: a scalar, or of a shape that broadcasts against the tensors (see
            :func:`qdqtool.numerics.granularity.expand`).
    """
    difference = steps(reference, x, scale)
    return float(np.max(np.abs(difference), initial=0.0, where=np.isfinite(difference)))


def steps(reference: Array, x: Array, scale: Array) -> Array:
    """The difference of each element in quantization steps: ``(x - a) / scale``, float64, of the tensors' shape.

    Elements that are equal differ by 0 steps, infinities included; NaN against NaN is 0 as well.
    """
    _check_shapes(reference, x)
    a, b = reference.astype(FLOAT64), x.astype(FLOAT64)
    with np.errstate(all="ignore"):
        difference = (b - a) / np.asarray(scale).astype(FLOAT64)
    return np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, difference)


def nonfinite_mismatches(reference: Array, x: Array) -> int:
    """How many elements are NaN or infinite in one tensor and not the same in the other."""
    count = 0
    for a, b in _pairs(reference, x):
        special = ~(np.isfinite(a) & np.isfinite(b))
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        count += int(np.count_nonzero(special & ~same))
    return count


def exact(reference: Array, x: Array) -> bool:
    """Whether the tensors are equal element by element; NaN equals NaN, and -0 equals 0."""
    return all(np.array_equal(a, b, equal_nan=True) for a, b in _pairs(reference, x))


def _sum(terms: Array) -> float:
    """Sum with NumPy's pairwise sum: unlike a BLAS dot product it is the same for any number of threads."""
    return float(np.sum(terms))


def _finite_pairs(reference: Array, x: Array) -> Iterator[tuple[Array, Array]]:
    for a, b in _pairs(reference, x):
        finite = np.isfinite(a) & np.isfinite(b)
        yield (a, b) if finite.all() else (a[finite], b[finite])


def _pairs(reference: Array, x: Array) -> Iterator[tuple[Array, Array]]:
    """Yield both tensors in float64, flat, a piece at a time."""
    _check_shapes(reference, x)
    left, right = reference.reshape(-1), x.reshape(-1)
    for start in range(0, left.size, _PIECE):
        part = slice(start, start + _PIECE)
        yield left[part].astype(FLOAT64), right[part].astype(FLOAT64)


def _check_shapes(reference: Array, x: Array) -> None:
    if reference.shape != x.shape:
        raise ArgumentError(f"shapes are {list(reference.shape)} and {list(x.shape)}; they must be equal")
