"""Measure a task metric of each layer for ``sensitivity``: with it alone quantized, and with it alone in float."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from qdqtool.accuracy.layers.effects import float_setting, only_setting
from qdqtool.accuracy.layers.layer_runs import LayerRuns
from qdqtool.accuracy.layers.masked_model import MaskedModel, Setting
from qdqtool.accuracy.layers.masked_runs import MaskedRuns
from qdqtool.accuracy.layers.units import Unit
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
    def of(cls, metric: RequestedMetric, masked: MaskedModel, runs: MaskedRuns, feeds: Feeds) -> MetricRuns:
        """Return the metric for the outputs of a model, on samples whose labels are still to be found."""
        return cls(metric.measure(runs.all_outputs), masked, runs, labelled_for(metric, feeds))

    def first(self, count: int) -> MetricRuns:
        """Return the same on the first samples."""
        return MetricRuns(self.measure, self.masked, self.runs, self.feeds.first(count))

    def score(self, setting: Setting, model: str) -> Score:
        """Return the metric with some pairs switched.

        Args:
            setting: Which pairs are switched.
            model: What messages call the model, such as ``the float model``.
        """
        tally = self.measure.tally(model)
        for sample, outputs in self.runs.run_all(setting, self.feeds):
            tally.add(outputs, sample)
        return tally.score()

    def score_float(self) -> Score:
        """Return the metric of the float model; errors as :meth:`score`."""
        return self.score(self.masked.all_float, "the float model")


RUNS_PER_SAMPLE = 12
"""Runs of one sample that the layers may take together, for each sample."""

FEW_SAMPLES = 64
"""Samples that every layer may be measured on, whatever that costs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerMetric:
    """The task metric of one layer.

    Attributes:
        alone: Its value with only this layer quantized.
        without: Its value with only this layer in float.
    """

    alone: float
    without: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricEffect:
    """The task metric of the float model and of the quantized one.

    Attributes:
        name: The metric, or the name of a function of the user.
        output: The output that was measured; None where a function of the user got all of them.
        unit: Unit of the values; may be empty.
        loss_unit: Unit of the loss; may be empty.
        samples: Number of samples that the models were measured on: the choosing part of the data.
        predictions: Number of predictions on them; of samples where a function of the user measures.
        float_value: Value of the float model.
        value: Value with all layers quantized.
        loss: Loss of the latter against the former.
        chance: Why the float model is no better than guessing, in words; None where it is, or nobody can tell.
        layer_samples: Number of samples that each layer was measured on, from the first.
        layer_predictions: Number of predictions on these.
        layer_float_value: Value of the float model on these.
        layer_value: Value with all layers quantized on these.
    """

    name: str
    output: str | None
    unit: str
    loss_unit: str
    samples: int
    predictions: int
    float_value: float
    value: float
    loss: float
    chance: str | None
    layer_samples: int
    layer_predictions: int
    layer_float_value: float
    layer_value: float


@dataclass(frozen=True, slots=True)
class LayerMetrics:
    """The metric of the whole model, and of each layer."""

    whole: MetricEffect
    of: Mapping[Unit, LayerMetric]


def measure_layers(layers: LayerRuns, metric: MetricRuns) -> LayerMetrics:
    """Measure the metric of the float model, of the quantized one, and of each layer.

    The models are measured on all samples. The layers are measured on at least :data:`FEW_SAMPLES` of them, and on as
    many as take :data:`RUNS_PER_SAMPLE` runs for each sample in all.

    Args:
        layers: The layers and their session.
        metric: The metric with the samples that may choose.
    """
    count = len(metric.feeds)
    few = min(count, max(FEW_SAMPLES, RUNS_PER_SAMPLE * count // max(1, 2 * len(layers.units))))
    whole = metric.score_float(), metric.score({}, "the quantized model")
    part = metric.first(few)
    known = whole if few == count else (part.score_float(), part.score({}, "the quantized model"))
    found = {unit: _of(unit, layers, part) for unit in layers.units}
    return LayerMetrics(_effect(metric.measure, whole, known, (count, few)), found)


def _of(unit: Unit, layers: LayerRuns, metric: MetricRuns) -> LayerMetric:
    name = unit.leader.label
    alone = metric.score(only_setting(unit, layers.masked), f"the model with only {name} quantized")
    without = metric.score(float_setting([unit]), f"the model with only {name} in float")
    return LayerMetric(alone=alone.value, without=without.value)


def _effect(
    measure: Measure, whole: tuple[Score, Score], part: tuple[Score, Score], samples: tuple[int, int]
) -> MetricEffect:
    reference, quantized = whole
    return MetricEffect(
        name=measure.name,
        output=measure.output,
        unit=measure.unit,
        loss_unit=measure.loss_unit,
        samples=samples[0],
        predictions=reference.predictions,
        float_value=reference.value,
        value=quantized.value,
        loss=measure.loss(quantized.value, reference.value),
        chance=reference.chance,
        layer_samples=samples[1],
        layer_predictions=part[0].predictions,
        layer_float_value=part[0].value,
        layer_value=part[1].value,
    )
