"""Tensors and weights that no scale serves well: what is wrong with them, and what was done about it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from qdqtool.checking.accuracy import ZEROED, Accuracy, ZeroedTensor
from qdqtool.graph.scope import display
from qdqtool.numerics.derive import SCALE_RANGE, ScaleRule
from qdqtool.numerics.dtypes import Array
from qdqtool.planning.placement import ProposedSlot
from qdqtool.ranges.calibrators import Threshold
from qdqtool.ranges.histogram import Histogram
from qdqtool.ranges.types import TensorRange

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
    elif seen.histogram is not None and (share := _zeroed(seen.histogram, scale)) > ZEROED:
        action = f"NOT clipped: {share:.4%} of the values that are not 0 become 0; exclude what reads it, or mend it"
        yield _of(entry, "strays", scale, action)


def with_measured(known: tuple[DegenerateTensor, ...], cost: Accuracy | None) -> tuple[DegenerateTensor, ...]:
    """Degenerate tensors with those that only a measurement shows: without counts, only the largest value is known.

    Args:
        known: What was found when scales were made; it is not found again.
        cost: What was measured; None for nothing.
    """
    named = {(each.tensor, each.graph) for each in known}
    found = (_measured(each, cost.samples) for each in cost.zeroed) if cost is not None else ()
    return (*known, *(each for each in found if (each.tensor, each.graph) not in named))


def _measured(zeroed: ZeroedTensor, samples: int) -> DegenerateTensor:
    return DegenerateTensor(
        tensor=zeroed.tensor,
        graph=zeroed.graph,
        kind="activation",
        condition="strays",
        scales=1,
        of=1,
        scale=zeroed.scale,
        action=(
            f"NOT clipped: {zeroed.share:.4%} of the values that are not 0 become 0 on {samples} samples; look at it "
            "with method auto, which counts values and can clip strays, or exclude what reads it"
        ),
    )


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
