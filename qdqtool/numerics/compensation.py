"""Change a weight so that its products keep close to the float ones although their inputs were quantized before.

The layers in front of a product are quantized too, so it reads ``x'`` and not ``x``. The weight that gets nearest to
``x W`` from ``x'`` is the least squares solution ``W + (H + d)^-1 D W`` with ``H = sum(x'' x')``, ``D = sum(x'' (x -
x'))`` and a damping ``d``, which keeps it near ``W`` where there are few rows. It is what is rounded then.

Source: Li et al., GPTAQ: Efficient Finetuning-Free Quantization for Asymmetric Calibration (2025), whose correction of
the first channel is this sum; here it is made for all channels before any is rounded.
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
"""Number of outputs of a matrix from which the useful share of its correction is found, one for the whole matrix."""


@dataclass(frozen=True, eq=False)
class InputChange:
    """``D = sum(x'' (x - x'))``, ``[K, K]``, by the rows of which it is the sum: it is only multiplied with weights.

    Attributes:
        pieces: Each makes some rows, ``[n, K]``: ``x'``, what the product reads in the quantized model, and ``x - x'``,
            where ``x`` are the same rows in the float model. They are made at each use and not kept.
    """

    pieces: tuple[Callable[[], tuple[Array, Array]], ...]

    @classmethod
    def joined(cls, parts: Iterable["InputChange"]) -> "InputChange":
        """Return the sum of changes."""
        return cls(tuple(piece for part in parts for piece in part.pieces))

    def __matmul__(self, weights: Array) -> Array:
        """Return ``D W`` of a weight ``[K, N]``, in the type of the rows."""
        inputs, outputs = weights.shape
        # Of a weight that is so narrow, products with the rows are less work than to make D.
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
        # An overflow gives infinity, which no caller takes for a correction.
        with np.errstate(all="ignore"):
            rows = (piece() for piece in self.pieces)
            return _summed(rounded.T @ right(difference) for rounded, difference in rows)


@dataclass(frozen=True, slots=True, eq=False)
class PairedMoments:
    """Moments of the inputs of a product in the quantized model, beside those of the float model.

    Attributes:
        inputs: ``sum(x'' x')``, ``[K, K]``, ``x'`` the rows that the product reads in the quantized model.
        change: ``sum(x'' (x - x'))``, ``x`` the same rows in the float model; None where they are equal.
    """

    inputs: Moments
    change: InputChange | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Compensation:
    """What all samples say of the matrices that read the same inputs: it corrects them, and its factor rounds them.

    Attributes:
        factor: The factor of the moments of the inputs.
        change: By how much the inputs were changed; None where that is not known, or they were not.
    """

    factor: Factor
    change: InputChange | None

    @classmethod
    def of(cls, folds: list[PairedMoments]) -> "Compensation":
        """Return it from the moments on disjoint parts of the samples, which are used up: the list is empty afterwards.

        With 8,192 inputs, the moments of each part take 268 MB, as the factor does.
        """
        changes = [fold.change for fold in folds if fold.change is not None]
        change = InputChange.joined(changes) if len(changes) == len(folds) else None
        return cls(Factor.of(_summed(folds.pop(0).inputs for _ in range(len(folds)))), change)

    def compensated(self, weights: Array, share: float) -> Array:
        """Return the weight that makes up for what quantization has changed in its inputs.

        Args:
            weights: ``[K, N]``, finite.
            share: By how much of the correction, from :func:`useful_shares`.

        Returns:
            ``[K, N]``, in the type of the moments; the given array where no correction serves.
        """
        if self.change is None or not share:
            return weights
        values = weights.astype(self.factor.upper.dtype)
        found = values + values.dtype.type(share) * self.factor.solve(self.change @ values)
        return found if np.isfinite(found.astype(np.float32)).all() else weights


def useful_shares(matrices: Sequence[Callable[[], Array]], folds: Sequence[PairedMoments]) -> list[float]:
    """Return which share of its correction each matrix should get.

    A correction found on few rows also contains what these rows have in common by chance. So it is multiplied by the
    share that helps on other samples too.

    Args:
        matrices: Each call reads a finite matrix ``[K, N]``; all matrices have the same inputs. A matrix is read only
            if there is something to correct.
        folds: Moments of the K input channels on disjoint parts of the samples.

    Returns:
        One share for each matrix, from 0 to 1; 0 where there is only one part, or nothing to correct.
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
        correction: ``C``, likewise.
        judge: Moments of other rows than those that the correction was found on.
    """
    assert judge.change is not None
    gain = float(np.sum(correction * (judge.change @ weights), dtype=FLOAT64))
    power = float(np.sum(correction * (judge.inputs @ correction), dtype=FLOAT64))
    return min(max(gain / power, 0.0), 1.0) if power > 0 else 0.0


def _summed(arrays: Iterator[Array]) -> Array:
    """Return the sum of arrays of one shape, in the memory of the first."""
    total = next(arrays)
    for array in arrays:
        total += array
    return total
