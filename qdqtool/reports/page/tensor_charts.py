"""Choose and sort the tensors that have a chart of their values or scales."""

from qdqtool.jobs.quantize_report import QuantizeReport
from qdqtool.quantization.report import ActivationRange, WeightScales
from qdqtool.reports.blocks import Cell, scoped
from qdqtool.reports.saved.story import Story

ORDER = 52
"""The order of the section with the charts."""
MOST = 500
"""Largest number of activations on the page, and of weights: the report of a large model has thousands."""


def shown_ranges(story: Story) -> tuple[ActivationRange, ...]:
    """Return the shown activations, sorted by the ratio of their largest magnitude to the range, largest first."""
    quantize = story.first(QuantizeReport)
    found = quantize.activation_ranges if quantize is not None else ()
    return tuple(sorted(found, key=lambda each: -(reach(each) or 0))[:MOST])


def shown_scales(story: Story) -> tuple[WeightScales, ...]:
    """Return the shown weights: first weights with channels of zeros, then those with the most uneven scales."""
    quantize = story.first(QuantizeReport)
    found = quantize.weight_scales if quantize is not None else ()
    return tuple(sorted(found, key=lambda each: (not each.dead, -(unevenness(each) or 0)))[:MOST])


def charted(story: Story) -> frozenset[str]:
    """Return the labels of the tensors that have a chart."""
    places = [(each.tensor, each.graph) for each in shown_ranges(story)]
    places += [(each.tensor, each.graph) for each in shown_scales(story)]
    return frozenset(scoped(tensor, graph) for tensor, graph in places)


def tensor_cell(label: str, known: frozenset[str]) -> Cell:
    """Return a cell with the label of a tensor, which links to its chart if there is one."""
    return Cell(label, label.casefold(), chart=ORDER if label in known else None)


def reach(found: ActivationRange) -> float | None:
    """Return the largest magnitude divided by the range, or None if values are unknown or the range is 0."""
    if found.values is None or not found.range:
        return None
    return max(abs(found.min), abs(found.max)) / found.range


def extremes(found: WeightScales) -> tuple[float | None, float | None]:
    """Return the smallest and the largest scale other than 0; None if all weights are 0."""
    low = [value for value in map(float, found.smallest.split()) if value]
    high = [value for value in map(float, found.largest.split()) if value]
    # A point with a channel of zeros has no smallest scale, so its largest scale is used.
    return min((*low, *high), default=None), max((*low, *high), default=None)


def unevenness(found: WeightScales) -> float | None:
    """Return the ratio of the largest to the smallest scale, or None if all weights are 0."""
    low, high = extremes(found)
    return None if low is None or high is None else high / low
