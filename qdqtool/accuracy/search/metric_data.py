"""Check that the samples and labels that a task metric needs exist, before any step that takes time."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from qdqtool.accuracy.task_metrics.measure import Measure, RequestedMetric, coarse
from qdqtool.accuracy.task_metrics.request import labelled_for
from qdqtool.errors import UsageError, plural
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model
from qdqtool.quantization.planning.recipe import Recipe, with_fixed_inputs
from qdqtool.quantization.preparation.cached_ranges import CachedRanges
from qdqtool.quantization.preparation.plan_inputs import PlanSources
from qdqtool.samples.feeds import Feeds
from qdqtool.samples.request import FileData, RandomData, open_feeds
from qdqtool.samples.split import split_samples, undivided

DIGITS = 3
"""Digits of a limit in a hint."""

CHOOSE, MEASURE = "samples that choose", "samples that measure"
"""The names of the two parts of the data in messages."""


@dataclass(frozen=True, slots=True)
class DataPart:
    """A part of the data on which a limit of a metric is judged.

    Attributes:
        name: :data:`CHOOSE` or :data:`MEASURE`.
        samples: Number of its samples.
        predictions: Number of predictions on them.
        held_back: Whether this part is a fifth of the calibration data.
    """

    name: str
    samples: int
    predictions: int
    held_back: bool = False


def require_samples(sources: PlanSources) -> None:
    """Check that there is data to measure a metric on.

    Raises:
        UsageError: There is no such data.
    """
    if _data_of(sources) is None and sources.validation is None:
        raise UsageError(
            "there are no samples to measure the requested metric on",
            hint="`--calib-data DATA`, with the array 'labels' if the metric needs it; or `--validation-data DATA`",
        )


def require_labels(metric: RequestedMetric, model: Model, sources: PlanSources, recipe: Recipe) -> None:
    """Check that the model has the output that a metric needs, and that the data has the labels.

    One sample is read: of the validation data, or else of the calibration data.

    Args:
        metric: The metric.
        model: The float model.
        sources: The samples.
        recipe: Mode, target and options; it may fix input shapes, and thus the rows of a sample.
    """
    metric.measure(ModelIndex.of(model).view.main.output_names())
    fixed = with_fixed_inputs(model, recipe)
    source = sources.validation or _data_of(sources)
    if source is not None:
        labelled_for(metric, open_feeds(fixed, _one_sample(source)))


def require_predictions(
    metric: RequestedMetric, model: Model, sources: PlanSources, recipe: Recipe, limit: float
) -> None:
    """Refuse a limit that is too small to be measured on the calibration data.

    All samples are read for this, or none if the metric can show any loss. For other sources, such as ranges with data,
    :func:`refuse_coarse` is called in the search.

    Args:
        metric: The metric.
        model: The float model.
        sources: The samples; they have labels.
        recipe: Mode, target and options of the quantization.
        limit: The largest loss of the metric, in its own unit.
    """
    data, measure = sources.data, metric.measure(ModelIndex.of(model).view.main.output_names())
    if data is None or isinstance(data, CachedRanges | RandomData) or measure.resolution(1) is None:
        return
    fixed = with_fixed_inputs(model, recipe)
    sizes = _label_counts(labelled_for(metric, open_feeds(fixed, data)))
    split = split_samples(len(sizes)) if sources.validation is None else undivided(len(sizes))
    parts = [DataPart(CHOOSE, len(split.choosing), sum(sizes[number] for number in split.choosing))]
    if split.held:
        held = sum(sizes[number] for number in split.held)
        parts.append(DataPart(MEASURE, len(split.held), held, held_back=True))
    if sources.validation is not None:
        others = _label_counts(labelled_for(metric, open_feeds(fixed, sources.validation)))
        parts.append(DataPart(MEASURE, len(others), sum(others)))
    refuse_coarse(limit, measure, parts)


def refuse_coarse(limit: float, measure: Measure, parts: Sequence[DataPart]) -> None:
    """Refuse a limit below the loss that one prediction makes.

    Args:
        limit: The largest loss of the metric, in its own unit.
        measure: The metric.
        parts: The parts of the data on which the limit is judged.

    Raises:
        UsageError: The samples cannot show such a loss, or their labels are empty.
    """
    part = min(parts, key=lambda each: each.predictions)
    if not part.predictions:
        raise UsageError(f"--max-metric-loss {limit:g}: the labels of the {part.name} are empty")
    text, one = coarse(limit, measure, part.predictions, f" on the {part.name}"), measure.resolution(part.predictions)
    if not text or one is None:
        return
    needed = math.ceil(part.predictions * one / limit)
    more = math.ceil(part.samples * needed / part.predictions)
    whole = ", a fifth of the data where they are held out" if any(each.held_back for each in parts) else ""
    raise UsageError(
        f"--max-metric-loss {limit:g}: {text}",
        hint=f"{plural(more, 'sample')} of that part can show it{whole}; or `--max-metric-loss {upwards(one)}`",
    )


def upwards(value: float) -> float:
    """Return a positive number rounded up to :data:`DIGITS` digits."""
    step = 10.0 ** (math.floor(math.log10(value)) + 1 - DIGITS)
    return round(math.ceil(value / step) * step, 12)


def _label_counts(feeds: Feeds) -> list[int]:
    return [0 if sample.labels is None else sample.labels.size for sample in feeds]


def _data_of(sources: PlanSources) -> str | Path | FileData | RandomData | None:
    """Return the samples of the calibration data, or the samples that are given with ranges."""
    return sources.data.data if isinstance(sources.data, CachedRanges) else sources.data


def _one_sample(source: str | Path | FileData | RandomData) -> FileData | RandomData:
    if isinstance(source, RandomData):
        return replace(source, samples=1)
    data = source if isinstance(source, FileData) else FileData(path=Path(source))
    # The preview is written when all samples are read.
    return replace(data, samples=1, allow_constant=True, options=replace(data.options, preview=None))
