"""Make a quantized model from a plan, and measure it on samples that did not influence it.

The ranges of the written model come from all samples. So the written model looks better on hold-out samples than on
other data. Therefore another model is measured there: the result of the same steps with ranges of selection samples.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from qdqtool.accuracy.checking.accuracy import MeasuredModel, measure_accuracy
from qdqtool.accuracy.layers.dominant_layer import with_dominant_in_float
from qdqtool.accuracy.report import Accuracy
from qdqtool.accuracy.task_metrics.request import MetricMeasurement
from qdqtool.errors import GateError, UsageError
from qdqtool.linting import rules
from qdqtool.linting.findings import Finding
from qdqtool.linting.policy import Linter, Policy
from qdqtool.linting.report import validate_report
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import NodeView
from qdqtool.models.graph.io.offload import offloaded
from qdqtool.models.graph.model import Model, Transformed
from qdqtool.models.options import WeightStorage
from qdqtool.models.plan import Placement, QuantPlan
from qdqtool.models.transforms.taps import TensorKey
from qdqtool.quantization.insertion.apply_plan import apply_plan
from qdqtool.quantization.insertion.split_qkv import separate_projections
from qdqtool.quantization.planning.high_precision import (
    known_magnitudes,
    lower,
    magnitudes_in,
    magnitudes_on_random_inputs,
    measure_magnitudes,
)
from qdqtool.quantization.planning.planners import PlanData, planner_for
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.quantization.preparation.bias_correction import correct_biases
from qdqtool.quantization.preparation.plan_inputs import PlanInputs
from qdqtool.quantization.ranges.types import Ranges
from qdqtool.quantization.report import DegenerateTensor, HighPrecisionReport, QuantizedTensor, ZeroedTensor
from qdqtool.quantization.statistics.float_runs import FloatRuns


def require_valid(
    quantized: Model, source: Model, target: str, lossy: Container[tuple[str, str]] = (), hint: str = ""
) -> tuple[Finding, ...]:
    """Return the findings of the linter on a quantized model, and refuse a model with errors.

    Args:
        quantized: The model.
        source: The model that it was made from. The message says if ``source`` has the same errors.
        target: The target of the model.
        lossy: Scope and name of the tensors that the caller reports as losing most of their values. If an outlier was
            clipped, a later tensor does not fill its calibrated range, and QN504 reports that. For these tensors QN504
            is not refused.
        hint: How the user can fix faults that ``source`` already has, besides the rule's remedy.

    Raises:
        GateError: There are other errors; the message has the first one.
    """
    findings = _findings(quantized, target)
    errors = [
        finding
        for finding in findings
        if finding.severity == "error" and not (finding.code == "QN504" and (finding.graph, finding.tensor) in lossy)
    ]
    if not errors:
        return findings
    first = errors[0]
    before = {(finding.code, finding.graph, finding.node) for finding in _findings(source, target)}
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    known = all((finding.code, finding.graph, finding.node) in before for finding in errors)
    raise GateError(
        f"the quantized model would not pass `validate --target {target}`; nothing was written: {first.code} "
        f"{first.node or first.tensor or ''}: {first.message}{more}",
        hint=f"the model has these errors already: {rules.get(first.code).remedy}{hint}" if known else None,
    )


def _findings(model: Model, target: str) -> tuple[Finding, ...]:
    return validate_report([Linter(Policy(targets=(target,))).model(model)]).findings


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantized:
    """A quantized model in memory, and the reports of the steps.

    Attributes:
        model: The model.
        full: The model before its float nodes were converted to half precision; None if they were not.
        pairs: The inserted pairs.
        corrected: The weights behind which biases were corrected.
        separated: The products that were split.
        high_precision: The conversion to half precision; None if there was none.
    """

    model: Model
    full: Model | None
    pairs: tuple[QuantizedTensor, ...]
    corrected: tuple[str, ...]
    separated: tuple[str, ...]
    high_precision: HighPrecisionReport | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizeSteps:
    """Carries out plans for one float model, always with the same steps.

    Attributes:
        ready: The float model that plans are made for: prepared, with its opset raised if necessary.
        inputs: The origin of the float model.
        recipe: Mode, target and options of the quantization.
        weights: How quantized constants are stored.
        magnitudes: Largest magnitudes of tensors on the selection samples; empty if nothing becomes half precision.
        refuse: Returns why a node must stay float32, or "" if it may be half precision.
    """

    ready: Model
    inputs: PlanInputs
    recipe: Recipe
    weights: WeightStorage
    magnitudes: Mapping[TensorKey, float]
    refuse: Callable[[NodeView], str] = lambda _: ""

    @classmethod
    def of(cls, ready: Model, inputs: PlanInputs, recipe: Recipe, weights: WeightStorage) -> QuantizeSteps:
        """Return the steps for a float model; its tensors are measured if some become half precision."""
        recipe = with_dominant_in_float(recipe, inputs.prepared.record)
        half, choosing = recipe.high_precision.half, inputs.choosing
        measured: Mapping[TensorKey, float] = {}
        if half is not None:
            model = inputs.prepared.model
            measured = measure_magnitudes(model, choosing) if choosing else magnitudes_on_random_inputs(model)
        return cls(ready=ready, inputs=inputs, recipe=recipe, weights=weights, magnitudes=measured)

    @property
    def is_random(self) -> bool:
        """Whether magnitudes were measured on random inputs."""
        return self.inputs.choosing is None or self.inputs.choosing.description.seed is not None

    def carry_out(self, plan: QuantPlan, ranges: Ranges | None) -> Quantized:
        """Insert a plan that was made with these ranges, if any, and carry out the steps that follow."""
        prepared = self.inputs.prepared
        placed = apply_plan(self.ready, plan, self.weights)
        corrected = correct_biases(placed.model, ModelIndex.of(prepared.model), plan, prepared.means)
        separated = separate_projections(corrected.model, self.recipe.target)
        # Offloaded to disk, so that codes are computed once instead of for every session and for the file. Without data
        # no session runs, and codes are computed only for the file: int4 with 0.93 billion parameters takes 7.6 s, and
        # took 8.2 s when offloaded.
        runs = self.inputs.measuring is not None
        full = offloaded(separated.model) if runs else separated.model
        lowered: Transformed[HighPrecisionReport | None] = Transformed(full, None)
        if (half := self.recipe.high_precision.half) is not None:
            known = known_magnitudes(self.magnitudes, ranges)
            lowered = lower(full, half, known, self.refuse, random=self.is_random)
        changed = lowered.model is not full
        return Quantized(
            model=offloaded(lowered.model) if runs and changed else lowered.model,
            full=full if changed else None,
            pairs=placed.report,
            corrected=corrected.report,
            separated=separated.report,
            high_precision=lowered.report,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """The measurements of a quantized model.

    Attributes:
        accuracy: The accuracy; None without data.
        loaded: Whether the reference session loaded the written model, or one with the same nodes.
    """

    accuracy: Accuracy | None
    loaded: bool


def measure_cost(
    made: Quantized,
    plan: QuantPlan,
    index: ModelIndex,
    steps: QuantizeSteps,
    runs: FloatRuns,
    metric: MetricMeasurement | None = None,
) -> Measurement:
    """Measure the accuracy of a quantized model on the hold-out samples or the validation data."""
    inputs = steps.inputs
    if inputs.measuring is None:
        return Measurement(accuracy=None, loaded=False)
    try:
        rehearsal = _rehearsal(plan, index, steps)
    except UsageError as error:
        problem = f"the selection samples give no model: {error.message}"
        return Measurement(accuracy=Accuracy(samples=0, problem=problem), loaded=False)
    opened: list[Quantized] = []

    def make() -> Sequence[Model]:
        opened.append(made if rehearsal is None else steps.carry_out(*rehearsal))
        return [model for model in (opened[0].model, opened[0].full) if model is not None]

    measured, written = (plan, None) if rehearsal is None else (rehearsal[0], plan)
    candidate = MeasuredModel(make=make, plan=measured, written=written)
    cost = measure_accuracy(inputs.prepared.model, candidate, inputs.measuring, runs)
    if metric is not None and not cost.problem:
        cost = replace(cost, metric=metric.of(inputs.prepared.model, opened[0].model, inputs.measuring.feeds, runs))
    return Measurement(accuracy=cost, loaded=not cost.problem and _has_nodes_of(made.model, opened[0].model))


def _rehearsal(plan: QuantPlan, index: ModelIndex, steps: QuantizeSteps) -> tuple[QuantPlan, Ranges] | None:
    """Return the plan with ranges of the selection samples; None if they are the same or nothing was held out."""
    ranges, measuring = steps.inputs.ranges, steps.inputs.measuring
    if ranges is None or ranges.choosing is None or measuring is None or not measuring.held_back:
        return None
    chosen = replace(ranges, tensors=ranges.choosing, choosing=None)
    weights = {place.slot: place.params for place in plan}
    found = planner_for(steps.recipe, PlanData(ranges=chosen, weights=weights)).plan(index).plan
    # The ranges also decide which nodes become half precision.
    same = steps.recipe.high_precision.half is None or magnitudes_in(ranges) == magnitudes_in(chosen)
    return None if same and len(plan) == len(found) and all(map(_is_same, plan, found)) else (found, chosen)


def _is_same(one: Placement, two: Placement) -> bool:
    first, second = one.params, two.params
    return one.slot == two.slot and (
        first is second or (first.scheme == second.scheme and np.array_equal(first.scale, second.scale))
    )


def _has_nodes_of(one: Model, two: Model) -> bool:
    """Return whether two models have the same nodes, so that a session can load both or neither."""
    return one is two or list(one.proto.graph.node) == list(two.proto.graph.node)


def with_measured(known: tuple[DegenerateTensor, ...], cost: Accuracy | None) -> tuple[DegenerateTensor, ...]:
    """Return the known degenerate tensors, and those that only the measurement found.

    Without counts of values only the maximum of a tensor is known, so that deriving scales does not find them all.

    Args:
        known: The tensors that were found when scales were derived; they are not repeated.
        cost: The measurement; None if nothing was measured.
    """
    named = {(each.tensor, each.graph) for each in known}
    found = (_measured(each, cost.samples) for each in cost.zeroed) if cost is not None else ()
    return (*known, *(each for each in found if (each.tensor, each.graph) not in named))


def _measured(zeroed: ZeroedTensor, samples: int) -> DegenerateTensor:
    return DegenerateTensor(
        tensor=zeroed.tensor,
        graph=zeroed.graph,
        kind="activation",
        condition="strays",
        scales=1,
        of=1,
        scale=zeroed.scale,
        action=(
            f"NOT clipped: {zeroed.share:.4%} of the nonzero values become 0 on {samples} samples; look at it "
            "with method auto, which counts values and can clip outliers, or exclude the nodes that read it"
        ),
    )
