"""The sensitivity job: measure how quantizing each layer changes the outputs of a float model."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path

from qdqtool.accuracy.layers.effects import Effect, LayerMetrics, effects_of, measure_layers, noise_shares
from qdqtool.accuracy.layers.layer import Layer, excluding_patterns
from qdqtool.accuracy.layers.layer_runs import LayerRuns
from qdqtool.accuracy.layers.masked_runs import Errors, MetricRuns
from qdqtool.accuracy.layers.method_trial import try_methods
from qdqtool.accuracy.search.metric_data import require_labels
from qdqtool.accuracy.task_metrics.request import MetricRequest, load_metric
from qdqtool.errors import UsageError
from qdqtool.jobs.sensitivity_report import NodeEffect, OutputEffect, SensitivityReport
from qdqtool.models.graph.io.load import load_model
from qdqtool.models.graph.io.model_file import describe_file
from qdqtool.models.graph.io.offload import offloaded
from qdqtool.models.graph.io.output import check_output
from qdqtool.models.graph.model import Model
from qdqtool.models.graph.scope import display
from qdqtool.quantization.planning.existing_pairs import settle_model
from qdqtool.quantization.planning.high_precision import ready_for
from qdqtool.quantization.planning.planner import index_to_plan
from qdqtool.quantization.planning.planners import planner_for
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.quantization.preparation.cached_ranges import CachedRanges
from qdqtool.quantization.preparation.calibration import runs_for
from qdqtool.quantization.preparation.plan_inputs import PlanSources, gather_inputs
from qdqtool.samples.feeds import Progress
from qdqtool.samples.request import FileData, RandomData


@dataclass(frozen=True, slots=True, kw_only=True)
class SensitivityOptions:
    """The measurement of layers, and the file for its results.

    Attributes:
        recipe: Mode, target and options of the quantization; default int8 for TensorRT.
        metric: A task metric to measure each layer: ``NAME`` or ``NAME:OUTPUT`` as in ``check``, ``SCRIPT.py:func``, or
            a function of outputs and labels (``docs/how-to/check.md``); None for none.
        output: A file for the noise of each layer, which ``quantize`` can read to save time; None for none.
    """

    recipe: Recipe = field(default_factory=Recipe)
    metric: MetricRequest | None = None
    output: Path | None = None


def measure_sensitivity(
    model: str | Path | Model,
    data: str | Path | FileData | RandomData | CachedRanges,
    options: SensitivityOptions | None = None,
    progress: Progress | None = None,
    tick: Progress | None = None,
) -> SensitivityReport:
    """Measure how quantizing each layer changes the outputs.

    The model is prepared, calibrated and planned as ``quantize`` does it; no model is written. All layers are measured
    in one session, on up to 8 selection samples.

    Args:
        model: The ``.onnx`` file, or a loaded model. It is not changed.
        data: Calibration data, a request for random data, or ranges with data.
        options: What to quantize and measure.
        progress: Called after each calibration sample, with the number of finished samples and of all samples.
        tick: Called for each setting, with the number of finished settings and of all settings.
    """
    options = options or SensitivityOptions()
    output, metric = options.output, load_metric(options.metric) if options.metric is not None else None
    given = offloaded(model if isinstance(model, Model) else load_model(model))
    if output is not None:
        check_output(output, [given.path] if given.path else [])
    settled = settle_model(given, options.recipe)
    recipe, sources = settled.recipe, PlanSources(data, trial=try_methods)
    if metric is not None:
        require_labels(metric, settled.model, sources, recipe)
    with runs_for(recipe) as runs:
        inputs = gather_inputs(settled.model, sources, recipe, runs, progress)
        if inputs.choosing is None:
            raise UsageError("there are no samples to run", hint="give the data in addition to the ranges")
        ready = ready_for(inputs.prepared.model, recipe.high_precision).model
        index = index_to_plan(ready)
        planned = planner_for(recipe, inputs.plan_data()).plan(index)
    with LayerRuns.of(ready, planned.plan, inputs.prepared, inputs.choosing) as session, session.kept_in(output):
        if not session.runs.outputs:
            raise UsageError("no output of the model is a float tensor: there is nothing to measure")
        effects = effects_of(session.layers, session.runs, tick or (lambda *_: None), session.cache)
        whole = session.runs.measure({}).errors
        measured = None
        if metric is not None:
            scored = MetricRuns.of(metric, session.runs, inputs.choosing)
            measured = measure_layers(session.layers, scored)
        shares = dict(zip(session.layers, session.shares, strict=True))
        noise, patterns = noise_shares(effects), excluding_patterns(session.layers, index)
        return SensitivityReport(
            model=str(given.path or ""),
            model_file=describe_file(given),
            mode=recipe.quantize_mode,
            target=recipe.target,
            samples=len(session.runs.samples),
            calibration=inputs.used_for(planned),
            weights_only_db=_finite(session.worst_db(session.of_kind(constants=False))),
            activations_only_db=_finite(session.worst_db(session.of_kind(constants=True))),
            outputs=_outputs(whole),
            nodes=tuple(
                _node(effect, noise[effect.layer], shares[effect.layer], patterns[effect.layer], measured)
                for effect in sorted(effects, key=lambda each: -noise[each.layer])
            ),
            runs=session.runs.runs,
            sensitivity_file=str(output) if output is not None else None,
            metric=measured.whole if measured is not None else None,
        )


def _node(
    effect: Effect, noise: float, cost: float, patterns: tuple[str, ...], measured: LayerMetrics | None
) -> NodeEffect:
    layer: Layer = effect.layer
    outputs = _outputs(effect.alone)
    return NodeEffect(
        node=layer.leader.label,
        op_type=layer.leader.op_type,
        graph=display(layer.leader.scope.path),
        nodes=tuple(node.label for node in layer.nodes),
        noise_share=round(noise, 4),
        worst_sqnr_db=min((each.sqnr_db for each in outputs if each.sqnr_db is not None), default=None),
        gain_db=round(effect.gain_db, 4),
        cost_share=round(cost, 4),
        outputs=outputs,
        outputs_without=_outputs(effect.without),
        exclude=patterns,
        metric=measured.of[layer] if measured is not None else None,
    )


def _outputs(errors: Errors) -> tuple[OutputEffect, ...]:
    return tuple(
        OutputEffect(
            name=name,
            sqnr_db=_rounded(error.sqnr_db),
            cosine=_rounded(error.cosine, 8),
            finite=not error.nonfinite_mismatches,
        )
        for name, error in errors.items()
        if error.elements
    )


def _rounded(value: float | None, digits: int = 4) -> float | None:
    return None if value is None else round(value, digits)


def _finite(decibels: float) -> float | None:
    return None if decibels == math.inf else round(decibels, 4)
