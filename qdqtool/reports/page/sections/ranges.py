"""The ranges of activations with their observed values, and the scales of weights by channel."""

from collections.abc import Iterable

from qdqtool.errors import escape
from qdqtool.jobs.quantize_report import QuantizeReport
from qdqtool.quantization.report import ActivationRange, WeightScales
from qdqtool.reports.blocks import UNKNOWN, Block, Cell, Charts, Column, Columns, number, scoped, tabulate, text
from qdqtool.reports.page.section import Section
from qdqtool.reports.page.tensor_charts import (
    ORDER,
    charted,
    extremes,
    reach,
    shown_ranges,
    shown_scales,
    tensor_cell,
    unevenness,
)
from qdqtool.reports.saved.story import Story


def blocks(story: Story) -> tuple[Block, ...]:
    """Return charts and a table of the activations, and of the weights with several scales."""
    quantize = story.first(QuantizeReport)
    if quantize is None:
        return ()
    known = charted(story)
    return (
        *_activations(shown_ranges(story), len(quantize.activation_ranges), known),
        *_weights(shown_scales(story), len(quantize.weight_scales), known),
    )


def _activations(ranges: tuple[ActivationRange, ...], count: int, known: frozenset[str]) -> Iterable[Block]:
    if ranges:
        drawn = tuple((scoped(each.tensor, each.graph), _histogram(each)) for each in ranges)
        yield Charts("Magnitudes of an activation, and its range", "ranges", drawn)
        order = "sorted by largest magnitude / range"
        yield tabulate(f"Ranges of activations, {order}{_part(len(ranges), count)}", _of_activations(known), ranges)


def _weights(scales: tuple[WeightScales, ...], count: int, known: frozenset[str]) -> Iterable[Block]:
    if scales:
        drawn = tuple((scoped(each.tensor, each.graph), _points(each)) for each in scales)
        yield Charts("Scales of a weight by channel", "scales", drawn)
        order = "the most uneven first"
        yield tabulate(f"Weights with several scales, {order}{_part(len(scales), count)}", _of_weights(known), scales)


def _part(shown: int, count: int) -> str:
    return "" if shown == count else f"; the JSON report has all {count:,}"


def _of_activations(known: frozenset[str]) -> Columns[ActivationRange]:
    return {
        Column("Tensor"): lambda found: tensor_cell(scoped(found.tensor, found.graph), known),
        Column("Smallest value", numeric=True): lambda found: number(found.min, ".4g"),
        Column("Largest value", numeric=True): lambda found: number(found.max, ".4g"),
        Column("Range", numeric=True): lambda found: number(found.range, ".4g"),
        Column("Found by"): lambda found: text(_found_by(found)),
        Column("Clipped", numeric=True): lambda found: _clipped(found.clipped),
        Column("Largest magnitude / range", numeric=True): lambda found: number(reach(found), ".3g"),
    }


def _of_weights(known: frozenset[str]) -> Columns[WeightScales]:
    return {
        Column("Tensor"): lambda found: tensor_cell(scoped(found.tensor, found.graph), known),
        Column("Channels", numeric=True): lambda found: number(found.channels),
        Column("Channels of zeros", numeric=True): lambda found: number(found.dead),
        Column("Smallest scale", numeric=True): lambda found: number(extremes(found)[0], ".4g"),
        Column("Largest scale", numeric=True): lambda found: number(extremes(found)[1], ".4g"),
        Column("Largest / smallest", numeric=True): lambda found: number(unevenness(found), ".3g"),
    }


def _clipped(share: float | None) -> Cell:
    """Return a cell with a share in percent with three digits, because good ranges clip far less than 0.01%."""
    return number(None) if share is None else Cell(f"{100 * share:.3g}%", share)


def _found_by(found: ActivationRange) -> str:
    return f"{found.method}, of a tensor with the same scale" if found.shared else found.method


def _histogram(found: ActivationRange) -> tuple[object, ...]:
    values = UNKNOWN if found.values is None else found.values
    counts = found.histogram
    return (
        escape(found.format),
        (_rounded(found.min), _rounded(found.max), values),
        (_rounded(found.range), escape(_found_by(found)), escape(found.reason), found.clipped),
        tuple((escape(each.method), _rounded(each.range), each.clipped) for each in found.methods),
        None if counts is None else (counts.bin_width, counts.counts, counts.zeros, counts.beyond),
    )


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")


def _points(found: WeightScales) -> tuple[object, ...]:
    return escape(found.format), found.axis, found.channels, found.grouped, found.smallest, found.largest, found.dead


SECTION = Section(ORDER, "Ranges and scales", ("quantize",), blocks)
