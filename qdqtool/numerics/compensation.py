"""Change a weight so that its products keep close to the float ones although their inputs were quantized before.

The layers in front of a product are quantized too, so it reads ``x'`` and not ``x``. The weight that gets nearest to
``x W`` from ``x'`` is the least squares solution ``W + (H + d)^-1 D W`` with ``H = sum(x'' x')``, ``D = sum(x'' (x -
x'))`` and a damping ``d``, which keeps it near ``W`` where there are few rows. It is what is rounded then.

Source: Li et al., GPTAQ: Efficient Finetuning-Free Quantization for Asymmetric Calibration (2025), whose correction of
the first channel is this sum; here it is made for all channels before any is rounded.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np

from qdqtool.numerics.dtypes import FLOAT64, Array
from qdqtool.numerics.gptq import Factor, Moments

NARROW = 3
"""A weight ``[K, N]`` is narrow if K is at least so many times N."""

SHARE_COLUMNS = 128
"""Outputs of a matrix by which the useful share of its correction is found: it is one number for the whole matrix."""


@dataclass(frozen=True, eq=False)
class Change:
    """``D = sum(x'' (x - x'))``, ``[K, K]``, by the rows of which it is the sum: it is only multiplied with weights.

    Attributes:
        pieces: Each makes some rows, ``[n, K]``: ``x'``, what the product reads in the quantized model, and ``x - x'``,
            where ``x`` are the same rows in the float model. They are made at each use and not kept.
    """

    pieces: tuple[Callable[[], tuple[Array, Array]], ...]

    @classmethod
    def joined(cls, parts: Iterable["Change"]) -> "Change":
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
            return reduce(np.add, (rounded.T @ right(difference) for rounded, difference in rows))


@dataclass(slots=True, eq=False)
class PairedMoments:
    """Moments of the inputs of a product in the quantized model, beside those of the float model.

    Attributes:
        inputs: ``sum(x'' x')``, ``[K, K]``, ``x'`` the rows that the product reads in the quantized model; without
            elements once :attr:`factor` was made of them.
        change: ``sum(x'' (x - x'))``, ``x`` the same rows in the float model; None where they are equal.
    """

    inputs: Moments
    change: Change | None = None
    _factor: Factor | None = None

    @property
    def factor(self) -> Factor:
        """The factor of the damped moments; matrices that read the same inputs share it.

        It takes the place of the moments in memory: with 8,192 inputs each of both takes 268 MB.
        """
        if self._factor is None:
            self._factor = Factor.of(self.inputs)
            self.inputs = np.empty((0, 0), self.inputs.dtype)
        return self._factor


def total(folds: Sequence[PairedMoments]) -> PairedMoments:
    """Return the moments of the inputs on all samples."""
    changes = [fold.change for fold in folds if fold.change is not None]
    change = Change.joined(changes) if len(changes) == len(folds) else None
    # np.sum would copy all of them into one array first.
    return PairedMoments(reduce(np.add, [fold.inputs for fold in folds]), change)


def compensated(weights: Array, folds: Sequence[PairedMoments], whole: PairedMoments) -> Array:
    """Return the weight that makes up for what quantization has changed in its inputs.

    The correction is multiplied by the share of it that serves other samples than those it was found on: what few
    rows have in common by chance is in the correction too.

    Args:
        weights: ``[K, N]``, finite.
        folds: Moments of the K input channels on disjoint parts of the samples.
        whole: Their :func:`total`.

    Returns:
        ``[K, N]``, in the type of the moments; the given array where no correction serves, or there is one part.
    """
    if len(folds) < 2 or whole.change is None:
        return weights
    values = weights.astype(whole.inputs.dtype)
    few = np.ascontiguousarray(values[:, :: -(-values.shape[1] // SHARE_COLUMNS)])
    share = useful_share(few, _correction(few, folds[0]), folds[1])
    if not share:
        return weights
    found = values + values.dtype.type(share) * _correction(values, whole)
    return found if np.isfinite(found.astype(np.float32)).all() else weights


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


def _correction(weights: Array, moments: PairedMoments) -> Array:
    assert moments.change is not None
    return moments.factor.solve(moments.change @ weights)
