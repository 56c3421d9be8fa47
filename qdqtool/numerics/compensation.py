"""Correct a weight for its quantized inputs, so that its products stay close to those of the float model.

The layers before a product are quantized too, so the product reads ``x'`` instead of ``x``. The weight whose product
with ``x'`` is nearest to ``x W`` is ``W + (H + d)^-1 D W``, by least squares, with ``H = sum(x'' x')`` and ``D =
sum(x'' (x - x'))``. The damping ``d`` keeps the result near ``W`` if there are few rows. The corrected weight is then
rounded.

Source: Li et al., GPTAQ: Efficient Finetuning-Free Quantization for Asymmetric Calibration (2025), whose correction of
the first channel is this sum. Here the sum is computed for all channels before any channel is rounded.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from qdqtool.numerics.dtypes import FLOAT64, Array
from qdqtool.numerics.gptq import Factor, Moments

NARROW = 3
"""A weight ``[K, N]`` is narrow if K is at least this many times N."""

SHARE_COLUMNS = 128
"""Largest number of output channels that :func:`useful_shares` uses to find the share of a matrix."""


@dataclass(frozen=True, eq=False)
class InputChange:
    """The matrix ``D = sum(x'' (x - x'))``, ``[K, K]``, held as functions that return its rows ``x'`` and ``x - x'``.

    Attributes:
        pieces: Functions that return some rows, ``[n, K]``: ``x'``, read by the product in the quantized model, and
            ``x - x'``, with ``x`` the same rows in the float model. Rows are not kept: every use calls the functions.
    """

    pieces: tuple[Callable[[], tuple[Array, Array]], ...]

    @classmethod
    def joined(cls, parts: Iterable["InputChange"]) -> "InputChange":
        """Return the sum of changes."""
        return cls(tuple(piece for part in parts for piece in part.pieces))

    def __matmul__(self, weights: Array) -> Array:
        """Return ``D W`` for a weight ``W`` of shape ``[K, N]``, in the type of the rows."""
        inputs, outputs = weights.shape
        # For such a narrow weight, multiplying it with the rows takes less work than computing D.
        if outputs * NARROW <= inputs:
            return self._sum(lambda difference: difference @ weights)
        return np.asarray(self._matrix @ weights)

    @property
    def is_finite(self) -> bool:
        """Whether all rows are finite."""
        return all(np.isfinite(rows).all() for piece in self.pieces for rows in piece())

    @cached_property
    def _matrix(self) -> Array:
        return self._sum(lambda difference: difference)

    def _sum(self, right: Callable[[Array], Array]) -> Array:
        # An overflow gives infinity; no caller applies an infinite correction.
        with np.errstate(all="ignore"):
            rows = (piece() for piece in self.pieces)
            return _summed(rounded.T @ right(difference) for rounded, difference in rows)


@dataclass(frozen=True, slots=True, eq=False)
class PairedMoments:
    """Moments of the inputs of a product in the quantized model, and how these inputs differ from the float model.

    Attributes:
        inputs: ``sum(x'' x')``, ``[K, K]``, where ``x'`` are the rows that the product reads in the quantized model.
        change: ``sum(x'' (x - x'))``, where ``x`` are the same rows in the float model; None if ``x`` equals ``x'``.
    """

    inputs: Moments
    change: InputChange | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Compensation:
    """The correction and the rounding of all matrices that read the same inputs, found on all samples.

    Attributes:
        factor: The Cholesky factor of the moments of the inputs, with which GPTQ rounds.
        change: The change of the inputs by quantization; None if it is unknown or zero.
    """

    factor: Factor
    change: InputChange | None

    @classmethod
    def of(cls, folds: list[PairedMoments]) -> "Compensation":
        """Sum the moments of disjoint parts of the samples, and empty the list ``folds`` to free memory.

        With 8,192 inputs, the moments of one part take 268 MB, and so does the factor.
        """
        changes = [fold.change for fold in folds if fold.change is not None]
        change = InputChange.joined(changes) if len(changes) == len(folds) else None
        return cls(Factor.of(_summed(folds.pop(0).inputs for _ in range(len(folds)))), change)

    def compensated(self, weights: Array, share: float) -> Array:
        """Return the weight, corrected for the change of its inputs by quantization.

        Args:
            weights: ``[K, N]``, finite.
            share: The share of the correction to apply, from :func:`useful_shares`.

        Returns:
            ``[K, N]``, in the type of the moments; ``weights`` itself if there is no usable correction.
        """
        if self.change is None or not share:
            return weights
        values = weights.astype(self.factor.upper.dtype)
        found = values + values.dtype.type(share) * self.factor.solve(self.change @ values)
        return found if np.isfinite(found.astype(np.float32)).all() else weights


def useful_shares(matrices: Sequence[Callable[[], Array]], folds: Sequence[PairedMoments]) -> list[float]:
    """Return, for each matrix, the share of its correction that should be applied.

    A correction found on few rows also fits random properties of these rows. So it is multiplied by the share that
    helps on other samples too.

    Args:
        matrices: Functions that read a finite matrix ``[K, N]``; all matrices have the same inputs. They are called
            only if there is something to correct.
        folds: Moments of the K input channels on disjoint parts of the samples.

    Returns:
        One share for each matrix, from 0 to 1. The share is 0 if there is only one part, or nothing to correct.
    """
    change = folds[0].change
    if len(folds) < 2 or change is None or folds[1].change is None:
        return [0.0] * len(matrices)
    factor, shares = Factor.of(folds[0].inputs), []
    for read in matrices:
        weights = read()
        some = weights[:, :: -(-weights.shape[1] // SHARE_COLUMNS)].astype(factor.upper.dtype, order="C")
        shares.append(useful_share(some, factor.solve(change @ some), folds[1]))
    return shares


def useful_share(weights: Array, correction: Array, judge: PairedMoments) -> float:
    """Return the ``t`` from 0 to 1 with the least ``sum((x' (W + t C) - x W)**2)``.

    Args:
        weights: ``W``, ``[K, N]``.
        correction: ``C``, ``[K, N]``.
        judge: Moments of rows that were not used to find the correction.
    """
    assert judge.change is not None
    gain = float(np.sum(correction * (judge.change @ weights), dtype=FLOAT64))
    power = float(np.sum(correction * (judge.inputs @ correction), dtype=FLOAT64))
    return min(max(gain / power, 0.0), 1.0) if power > 0 else 0.0


def _summed(arrays: Iterator[Array]) -> Array:
    """Return the sum of arrays of one shape, stored in the first array."""
    total = next(arrays)
    for array in arrays:
        total += array
    return total
