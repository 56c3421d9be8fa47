"""Tensors and weights that no scale serves well: what is wrong with them, and what was done about it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from qdqtool.calibrators import Threshold
from qdqtool.graph.scope import display
from qdqtool.histogram import Histogram
from qdqtool.numerics.derive import SCALE_RANGE, ScaleRule
from qdqtool.numerics.dtypes import Array
from qdqtool.pipeline.placement import ProposedSlot
from qdqtool.ranges import TensorRange

LOST = 0.99
"""Part of a tensor's values that may be rounded to 0 without a word: heavy tails of trained networks stay far below."""

Condition = Literal["zeros", "tiny", "constant", "mask", "strays"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DegenerateTensor:
    """One tensor or weight that no scale serves well.

    Attributes:
        tensor: Its name.
        graph: Its scope; empty for the main graph.
        kind: ``weight`` or ``activation``.
        condition: ``zeros`` (nothing but), ``tiny`` (too small for a scale), ``constant`` (always the same value),
            ``mask`` (a stand-in for minus infinity among other values) or ``strays`` (few values far away from all
            others).
        scales: How many of its scales are concerned.
        of: How many scales it has.
        scale: What those are.
        action: What was done, in words.
    """

    tensor: str
    graph: str
    kind: str
    condition: Condition
    scales: int
    of: int
    scale: float
    action: str


def degenerate_scales(entry: ProposedSlot, amax: Array, rule: ScaleRule) -> Iterator[DegenerateTensor]:
    """Scales that the largest magnitudes of their groups are too small for.

    Args:
        entry: What is quantized.
        amax: Largest magnitude of each group.
        rule: In which type scales are stored.
    """
    smallest = SCALE_RANGE[rule.dtype][0]
    zero, tiny = amax == 0, (amax > 0) & (amax.astype(np.float64) / entry.scheme.format.high < smallest)
    for condition, which, scale in (("zeros", zero, 1.0), ("tiny", tiny, smallest)):
        if which.any():
            yield DegenerateTensor(
                tensor=entry.slot.tensor,
                graph=display(entry.slot.scope),
                kind=entry.kind,
                condition="zeros" if condition == "zeros" else "tiny",
                scales=int(which.sum()),
                of=amax.size,
                scale=scale,
                action=f"scale {scale:.3g}",
            )


def degenerate_values(entry: ProposedSlot, seen: TensorRange, found: Threshold) -> Iterator[DegenerateTensor]:
    """What calibration saw of one activation that is no usual distribution of values.

    Args:
        entry: What is quantized.
        seen: Its statistics.
        found: What its scale was derived from.
    """
    scale = found.amax / entry.scheme.format.high
    if seen.count > 1 and seen.min == seen.max != 0:
        yield _of(entry, "constant", scale, f"always {seen.min:g}, which is one code exactly")
    if found.apart is not None:
        yield _of(entry, found.apart, scale, f"clipped at {found.amax:g}: {found.reason}")
    elif seen.histogram is not None and (share := _zeroed(seen.histogram, scale)) > LOST:
        action = f"NOT clipped: {share:.4%} of the values that are not 0 become 0; exclude what reads it, or mend it"
        yield _of(entry, "strays", scale, action)


def _zeroed(histogram: Histogram, scale: float) -> float:
    """The part of the values other than 0 that a scale rounds to 0, at least."""
    total = int(histogram.counts.sum())
    if histogram.exponent is None or not total:
        return 0.0
    return float(histogram.counts[: int(scale / 2 / 2.0**histogram.exponent)].sum() / total)


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
