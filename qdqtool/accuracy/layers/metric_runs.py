"""Measure a task metric with some of the pairs of a masked model switched."""

from dataclasses import dataclass

from qdqtool.accuracy.layers.masked_model import MaskedModel, Setting
from qdqtool.accuracy.layers.masked_runs import MaskedRuns
from qdqtool.accuracy.task_metrics.measure import Measure, RequestedMetric, Score
from qdqtool.accuracy.task_metrics.request import labelled_for
from qdqtool.samples import Feeds


@dataclass(frozen=True, slots=True, eq=False)
class MetricRuns:
    """A task metric on samples with labels, in the session of a masked model.

    Samples are read anew for each setting, so that any number of them fits into memory.

    Attributes:
        measure: The metric.
        masked: The model.
        runs: Its session.
        feeds: The samples.
    """

    measure: Measure
    masked: MaskedModel
    runs: MaskedRuns
    feeds: Feeds

    @classmethod
    def of(cls, metric: RequestedMetric, masked: MaskedModel, runs: MaskedRuns, feeds: Feeds) -> "MetricRuns":
        """Return the metric for the outputs of a model, on samples whose labels are still to be found.

        Raises:
            UsageError: The metric does not fit the outputs, or needs labels that there are not.
        """
        return cls(metric.measure(runs.all_outputs), masked, runs, labelled_for(metric, feeds))

    def first(self, count: int) -> "MetricRuns":
        """Return the same on the first samples."""
        return MetricRuns(self.measure, self.masked, self.runs, self.feeds.first(count))

    def score(self, setting: Setting, model: str) -> Score:
        """Return the metric with some pairs switched.

        Args:
            setting: Which pairs are switched.
            model: What messages call the model, such as ``the float model``.

        Raises:
            RunError: A node fails on a sample.
            UsageError: The outputs do not fit the labels, or a function of the user fails.
        """
        tally = self.measure.tally(model)
        for sample, outputs in self.runs.run_all(setting, self.feeds):
            tally.add(outputs, sample)
        return tally.score()

    def score_float(self) -> Score:
        """Return the metric of the float model; errors as :meth:`score`."""
        return self.score(self.masked.all_float, "the float model")
