"""Look for the labels that a task metric needs, before anything that takes time."""

from dataclasses import replace
from pathlib import Path

from qdqtool.data.request import FileData, RandomData, open_feeds
from qdqtool.graph.model import Model
from qdqtool.planning.recipe import Recipe, with_fixed_inputs
from qdqtool.preparation.cached_ranges import CachedRanges
from qdqtool.preparation.plan_inputs import PlanSources
from qdqtool.task_metrics.measure import RequestedMetric
from qdqtool.task_metrics.request import labelled_for


def require_labels(metric: RequestedMetric, model: Model, sources: PlanSources, recipe: Recipe) -> None:
    """Check that the data has the labels that a metric needs; one sample of each source is read.

    Args:
        metric: The metric.
        model: The float model.
        sources: The samples.
        recipe: What is quantized: it may fix input shapes, and so the rows of a sample.

    Raises:
        NoLabelsError: There are none.
        UsageError: They do not fit the inputs.
    """
    data = sources.data.data if isinstance(sources.data, CachedRanges) else sources.data
    fixed = with_fixed_inputs(model, recipe)
    for source in (data, sources.validation):
        if source is not None:
            labelled_for(metric, open_feeds(fixed, _one_sample(source)))


def _one_sample(source: str | Path | FileData | RandomData) -> FileData | RandomData:
    if isinstance(source, RandomData):
        return replace(source, samples=1)
    data = source if isinstance(source, FileData) else FileData(path=Path(source))
    return replace(data, samples=1, allow_constant=True)
