"""Find tensors and weights that no scale represents well, and record how they are handled."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from qdqtool.models.graph.scope import display
from qdqtool.numerics.derive import SCALE_RANGE, ScaleRule
from qdqtool.numerics.dtypes import Array
from qdqtool.quantization.planning.placement import ProposedSlot
from qdqtool.quantization.ranges.calibrators import Threshold
from qdqtool.quantization.ranges.histogram import Histogram
from qdqtool.quantization.ranges.types import TensorRange
from qdqtool.quantization.report import Condition, DegenerateTensor

ZEROED = 0.99
"""Share of nonzero values that may be rounded to 0 without a warning; trained networks stay far below.
"""


def degenerate_scales(entry: ProposedSlot, amax: Array, rule: ScaleRule) -> Iterator[DegenerateTensor]:
    """Yield the scales of groups whose largest magnitude is too small for a scale of the format."""
    smallest = SCALE_RANGE[rule.dtype][0]
    zero, tiny = amax == 0, (amax > 0) & (amax.astype(np.float64) / entry.scheme.format.high < smallest)
    found: tuple[tuple[Condition, Array, float], ...] = (("zeros", zero, 1.0), ("tiny", tiny, smallest))
    for condition, which, scale in found:
        if which.any():
            one = _of(entry, condition, scale, f"scale {scale:.3g}")
            yield replace(one, scales=int(which.sum()), of=amax.size)


def degenerate_values(entry: ProposedSlot, seen: TensorRange, found: Threshold) -> Iterator[DegenerateTensor]:
    """Yield unusual properties of the calibration values of one activation."""
    scale = found.amax / entry.scheme.format.high
    if seen.count > 1 and seen.min == seen.max != 0:
        yield _of(entry, "constant", scale, f"always {seen.min:g}, which one code stores exactly")
    if found.apart is not None:
        yield _of(entry, found.apart, scale, f"clipped at {found.amax:g}: {found.reason}")
    elif seen.histogram is not None and (share := _zeroed(seen.histogram, scale)) > ZEROED:
        action = f"NOT clipped: {share:.4%} of the nonzero values become 0; exclude its readers, or change the model"
        yield _of(entry, "strays", scale, action)


def with_zeros(known: tuple[DegenerateTensor, ...]) -> frozenset[tuple[str, str]]:
    """Return scope and name of the tensors that have scales for zeros only."""
    return frozenset((each.graph, each.tensor) for each in known if each.condition == "zeros")


def _zeroed(histogram: Histogram, scale: float) -> float:
    """Return a lower bound of the fraction of nonzero values that a scale rounds to 0."""
    # Zeros are not counted in the histogram. Rounding half to even gives 0 up to scale / 2; the bin that contains this
    # value is left out, so that the result is a lower bound.
    if histogram.exponent is None:
        return 0.0
    below = histogram.counts[: int(scale / 2 / 2.0**histogram.exponent)]
    return float(below.sum() / histogram.counts.sum())


def _of(entry: ProposedSlot, condition: Condition, scale: float, action: str) -> DegenerateTensor:
    return DegenerateTensor(
        tensor=entry.slot.tensor,
        graph=display(entry.slot.scope),
        kind=entry.kind,
        condition=condition,
        scales=1,
        of=1,
        scale=scale,
        action=action,
    )
