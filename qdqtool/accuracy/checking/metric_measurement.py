"""Measure a task metric of a quantized model that was not written yet, and of the float model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from qdqtool.accuracy.task_metrics.measure import Measure, MetricResult, RequestedMetric, Score
from qdqtool.accuracy.task_metrics.request import MetricRequest, compared, labelled_for, load_metric
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model
from qdqtool.models.running.own_evaluator import open_session
from qdqtool.models.running.own_support import plan_split
from qdqtool.numerics.dtypes import Array
from qdqtool.quantization.statistics.float_runs import FloatRuns, run_sample
from qdqtool.samples import Feeds, Sample


@dataclass(slots=True, eq=False)
class MetricMeasurement:
    """A task metric on the samples that measure; the float model is run once for all models.

    Attributes:
        metric: The metric.
    """

    metric: RequestedMetric
    _float: Score | None = None

    @classmethod
    def asked(cls, request: MetricRequest | None) -> MetricMeasurement | None:
        """Return the metric that the user asks for, if any; a script is executed now."""
        return None if request is None else cls(load_metric(request))

    def of(self, before: Model, after: Model, feeds: Feeds, runs: FloatRuns) -> MetricResult:
        """Measure a quantized model on all samples, and the float model if it was not measured before.

        Args:
            before: The float model.
            after: The quantized model.
            feeds: The samples.
            runs: Runs the float model; its session is closed afterwards.
        """
        samples = labelled_for(self.metric, feeds)
        measure = self.metric.measure(ModelIndex.of(before).view.main.output_names())
        if self._float is None:
            self._float = _score(measure, _float_outputs(before, samples, runs), "the float model")
        # Only one model is in memory.
        runs.close()
        score = _score(measure, _quantized_outputs(after, samples), "the quantized model")
        return compared(measure, score, self._float)


def _score(measure: Measure, runs: Iterator[tuple[Sample, Mapping[str, Array]]], model: str) -> Score:
    tally = measure.tally(model)
    for sample, outputs in runs:
        tally.add(outputs, sample)
    return tally.score()


def _float_outputs(model: Model, feeds: Feeds, runs: FloatRuns) -> Iterator[tuple[Sample, Mapping[str, Array]]]:
    main = runs.index_of(model).view.main
    values = [main.values[name] for name in main.output_names()]
    observer = runs.observer(model, values)
    for number, sample in enumerate(feeds):
        run = run_sample(observer, sample, number, feeds)
        found = {value.name: observer.output(run, value) for value in values}
        yield sample, {name: array for name, array in found.items() if array is not None}


def _quantized_outputs(model: Model, feeds: Feeds) -> Iterator[tuple[Sample, Mapping[str, Array]]]:
    with open_session(model, plan_split(ModelIndex.of(model))) as session:
        for sample in feeds:
            yield sample, session.run(sample)
