"""Which tensors have a chart of their values or scales, in which order, and where the page shows it."""

from qdqtool.jobs.quantize_report import QuantizeReport
from qdqtool.quantization.report import ActivationRange, WeightScales
from qdqtool.reports.blocks import Cell, scoped
from qdqtool.reports.saved.story import Story

ORDER = 52
"""The place of the section with the charts."""
MOST = 500
"""Most activations, and most weights, that the page shows: the report of a large model has thousands."""


def shown_ranges(story: Story) -> tuple[ActivationRange, ...]:
    """Return the activations that are shown, those with the largest values in units of the range first."""
    quantize = story.first(QuantizeReport)
    found = quantize.activation_ranges if quantize is not None else ()
    return tuple(sorted(found, key=lambda each: -(reach(each) or 0))[:MOST])


def shown_scales(story: Story) -> tuple[WeightScales, ...]:
    """Return the weights that are shown: those with channels of zeros first, then the most uneven."""
    quantize = story.first(QuantizeReport)
    found = quantize.weight_scales if quantize is not None else ()
    return tuple(sorted(found, key=lambda each: (not each.dead, -(unevenness(each) or 0)))[:MOST])


def charted(story: Story) -> frozenset[str]:
    """Return the labels of the tensors that have a chart."""
    places = [(each.tensor, each.graph) for each in shown_ranges(story)]
    places += [(each.tensor, each.graph) for each in shown_scales(story)]
    return frozenset(scoped(tensor, graph) for tensor, graph in places)


def tensor_cell(label: str, known: frozenset[str]) -> Cell:
    """Return a cell with the label of a tensor, which leads to its chart where there is one."""
    return Cell(label, label.casefold(), chart=ORDER if label in known else None)


def reach(found: ActivationRange) -> float | None:
    """Return the largest magnitude in units of the range; None where only a range is known, or all values are 0."""
    if found.values is None or not found.range:
        return None
    return max(abs(found.min), abs(found.max)) / found.range


def extremes(found: WeightScales) -> tuple[float | None, float | None]:
    """Return the smallest and the largest scale that means something; None where all weights are 0."""
    low = [value for value in map(float, found.smallest.split()) if value]
    high = [value for value in map(float, found.largest.split()) if value]
    # A point with a channel of zeros has no smallest scale: its largest one counts.
    return min((*low, *high), default=None), max((*low, *high), default=None)


def unevenness(found: WeightScales) -> float | None:
    """Return the ratio of the largest scale to the smallest; None where all weights are 0."""
    low, high = extremes(found)
    return None if low is None or high is None else high / low
