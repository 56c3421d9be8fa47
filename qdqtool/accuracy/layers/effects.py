"""The effect of each layer on outputs and task metric, with only this layer quantized or only this layer in float."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from qdqtool.accuracy.layers.layer import Layer
from qdqtool.accuracy.layers.masked_runs import Errors, MaskedRuns, MetricRuns, float_setting, only_setting
from qdqtool.accuracy.layers.noise_file import NoiseCache, alone_key, float_key
from qdqtool.accuracy.report import LayerMetric, MetricEffect

Tick = Callable[[int, int], None]
"""Called with the number of settings that were run, and the number of all settings."""


@dataclass(frozen=True, slots=True, eq=False)
class Effect:
    """The effect of one layer.

    Attributes:
        layer: The layer.
        alone: Errors of the outputs with only this layer quantized.
        without: Errors of the outputs with only this layer in float.
        gain_db: The drop of the noise of the outputs if only this layer stays in float.
    """

    layer: Layer
    alone: Errors
    without: Errors
    gain_db: float


def noise_shares(effects: Sequence[Effect]) -> Mapping[Layer, float]:
    """Return the share of each layer in the sum of the noise of single layers, at the output with the largest share.

    The share is 1 for a layer that makes elements NaN or infinite, because sums leave these out.
    """
    names = list(effects[0].alone) if effects else []
    whole = {name: sum(effect.alone[name].noise for effect in effects) for name in names}
    active = [name for name in names if whole[name] > 0]
    return {effect.layer: _share(effect.alone, {name: whole[name] for name in active}) for effect in effects}


def _share(alone: Errors, whole: Mapping[str, float]) -> float:
    if any(error.nonfinite_mismatches for error in alone.values()):
        return 1.0
    return max((alone[name].noise / noise for name, noise in whole.items()), default=0.0)


def effects_of(
    layers: Sequence[Layer], runs: MaskedRuns, tick: Tick, cache: NoiseCache | None = None
) -> tuple[Effect, ...]:
    """Measure every layer, and return the effects, the layer with the largest gain first.

    Args:
        layers: The layers.
        runs: The session and its samples. Every sample is run twice for each layer, and once more.
        tick: Called for each setting, with the number of settings so far and of all settings.
        cache: Stores the noise of every setting; None to store nothing.
    """
    whole, kept = runs.noise({}), {} if cache is None else cache
    kept[float_key([])] = whole
    found: list[Effect] = []
    for number, layer in enumerate(layers):
        tick(2 * number, 2 * len(layers))
        alone = runs.measure(only_setting([layer], runs.switches))
        tick(2 * number + 1, 2 * len(layers))
        without = runs.measure(float_setting([layer]))
        kept[alone_key(number)], kept[float_key([number])] = alone.noise, without.noise
        found.append(Effect(layer, alone.errors, without.errors, whole.gain_db(without.noise)))
    return tuple(sorted(found, key=lambda effect: -effect.gain_db))


RUNS_PER_SAMPLE = 12
"""Largest number of runs of each sample, over all layers."""

FEW_SAMPLES = 64
"""Number of samples that every layer is measured on, even if that takes more runs."""


@dataclass(frozen=True, slots=True)
class LayerMetrics:
    """The metric of the whole model, and of each layer."""

    whole: MetricEffect
    of: Mapping[Layer, LayerMetric]


def measure_layers(layers: Sequence[Layer], metric: MetricRuns) -> LayerMetrics:
    """Measure the metric of the float model, of the quantized model, and of each layer.

    The models are measured on all samples. The layers are measured on at least :data:`FEW_SAMPLES` samples, and on
    more if all runs together are at most :data:`RUNS_PER_SAMPLE` for each sample.

    Args:
        layers: The layers.
        metric: The metric in the session of the layers, with the selection samples.
    """
    count = len(metric.feeds)
    few = min(count, max(FEW_SAMPLES, RUNS_PER_SAMPLE * count // max(1, 2 * len(layers))))
    reference, quantized = metric.score_float(), metric.score({}, "the quantized model")
    part, measure = metric.first(few), metric.measure
    float_part, quantized_part = reference, quantized
    if few < count:
        float_part, quantized_part = part.score_float(), part.score({}, "the quantized model")
    found = {layer: _of(layer, part) for layer in layers}
    whole = MetricEffect(
        name=measure.name,
        output=measure.output,
        unit=measure.unit,
        loss_unit=measure.loss_unit,
        samples=count,
        predictions=reference.predictions,
        float_value=reference.value,
        value=quantized.value,
        loss=measure.loss(quantized.value, reference.value),
        chance=reference.chance,
        layer_samples=few,
        layer_predictions=float_part.predictions,
        layer_float_value=float_part.value,
        layer_value=quantized_part.value,
    )
    return LayerMetrics(whole, found)


def _of(layer: Layer, metric: MetricRuns) -> LayerMetric:
    name = layer.leader.label
    alone = metric.score(only_setting([layer], metric.runs.switches), f"the model with only {name} quantized")
    without = metric.score(float_setting([layer]), f"the model with only {name} in float")
    return LayerMetric(alone=alone.value, without=without.value)
