"""Compare models by a task metric: one model, its baseline, and outputs of it that were saved elsewhere."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from qdqtool.accuracy.task_metrics.measure import Measure, Score, Tally
from qdqtool.accuracy.task_metrics.result import MetricResult
from qdqtool.numerics.dtypes import Array
from qdqtool.samples import Sample

MODEL, BASELINE, SAVED = "the model", "the baseline", "the saved outputs"
"""What is compared."""


@dataclass(slots=True)
class MetricComparison:
    """What is counted of each.

    Attributes:
        measure: The metric.
        tallies: What is counted, by :data:`MODEL`, :data:`BASELINE` or :data:`SAVED`.
    """

    measure: Measure
    tallies: dict[str, Tally] = field(default_factory=dict)

    def add(self, source: str, outputs: Mapping[str, Array], sample: Sample) -> None:
        """Count one run.

        Args:
            source: :data:`MODEL`, :data:`BASELINE` or :data:`SAVED`.
            outputs: Outputs by name; a source without the output that is measured is left out.
            sample: The inputs, with labels; padded rows of the outputs are left out.

        Raises:
            UsageError: The outputs do not fit the labels.
        """
        if not outputs or (self.measure.output is not None and self.measure.output not in outputs):
            return
        if source not in self.tallies:
            self.tallies[source] = self.measure.tally(source)
        self.tallies[source].add(outputs, sample)

    def result(self) -> MetricResult:
        """Return the entry of a report.

        Raises:
            UsageError: A function of the user fails, or gives no number.
        """
        scores = {source: tally.score() for source, tally in self.tallies.items()}
        return compared(self.measure, scores[MODEL], scores.get(BASELINE), scores.get(SAVED))


def compared(measure: Measure, score: Score, baseline: Score | None = None, saved: Score | None = None) -> MetricResult:
    """Return the entry of a report on a model.

    Args:
        measure: The metric.
        score: The score of the model.
        baseline: That of its baseline.
        saved: That of outputs of the model that were saved elsewhere.
    """
    return MetricResult(
        name=measure.name,
        output=measure.output,
        unit=measure.unit,
        loss_unit=measure.loss_unit,
        predictions=score.predictions,
        value=score.value,
        baseline=baseline.value if baseline is not None else None,
        loss=measure.loss(score.value, baseline.value) if baseline is not None else None,
        saved=saved.value if saved is not None else None,
        saved_loss=measure.loss(saved.value, score.value) if saved is not None else None,
        chance=score.chance,
        baseline_chance=baseline.chance if baseline is not None else None,
    )
