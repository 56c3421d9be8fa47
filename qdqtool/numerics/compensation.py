"""Change a weight so that its products keep close to the float ones although their inputs were quantized before.

The layers in front of a product are quantized too, so it reads ``x'`` and not ``x``. The weight that gets nearest to
``x W`` from ``x'`` is the least squares solution ``W + (H + d)^-1 D W`` with ``H = sum(x'' x')``, ``D = sum(x'' (x -
x'))`` and a damping ``d``, which keeps it near ``W`` where there are few rows. It is what is rounded then.

Source: Li et al., GPTAQ: Efficient Finetuning-Free Quantization for Asymmetric Calibration (2025), whose correction of
the first channel is this sum; here it is made for all channels before any is rounded.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qdqtool.numerics.dtypes import FLOAT64, Array
from qdqtool.numerics.gptq import Moments, damped


@dataclass(frozen=True, slots=True, eq=False)
class PairedMoments:
    """Moments of the inputs of a product in the quantized model, beside those of the float model.

    Attributes:
        inputs: ``sum(x'' x')``, ``[K, K]``, ``x'`` the rows that the product reads in the quantized model.
        change: ``sum(x'' (x - x'))``, ``[K, K]``, ``x`` the same rows in the float model; None where they are equal.
    """

    inputs: Moments
    change: Moments | None = None


def total(folds: Sequence[PairedMoments]) -> Moments:
    """Return the moments of the inputs on all samples."""
    return np.asarray(np.sum([fold.inputs for fold in folds], axis=0))


def compensated(weights: Array, folds: Sequence[PairedMoments]) -> Array:
    """Return the weight that makes up for what quantization has changed in its inputs.

    The correction is multiplied by the share of it that serves other samples than those it was found on: what few
    rows have in common by chance is in the correction too.

    Args:
        weights: ``[K, N]``, finite.
        folds: Moments of the K input channels on disjoint parts of the samples.

    Returns:
        ``[K, N]``, float64; the given array where no correction serves, or there is one part.
    """
    changes = [fold.change for fold in folds if fold.change is not None]
    if len(folds) < 2 or len(changes) < len(folds):
        return weights
    values = weights.astype(FLOAT64)
    share = useful_share(values, _correction(values, folds[0].inputs, changes[0]), folds[1])
    if not share:
        return weights
    found = values + share * _correction(values, total(folds), np.asarray(np.sum(changes, axis=0)))
    return found if np.isfinite(found.astype(np.float32)).all() else weights


def useful_share(weights: Array, correction: Array, judge: PairedMoments) -> float:
    """Return the ``t`` from 0 to 1 with the least ``sum((x' (W + t C) - x W)**2)``.

    Args:
        weights: ``W``, float64 ``[K, N]``.
        correction: ``C``, likewise.
        judge: Moments of other rows than those that the correction was found on.
    """
    assert judge.change is not None
    gain = float(np.sum(correction * (judge.change.astype(FLOAT64) @ weights)))
    power = float(np.sum(correction * (judge.inputs.astype(FLOAT64) @ correction)))
    return min(max(gain / power, 0.0), 1.0) if power > 0 else 0.0


def _correction(weights: Array, inputs: Moments, change: Moments) -> Array:
    return np.asarray(np.linalg.solve(damped(inputs), change.astype(FLOAT64) @ weights))
