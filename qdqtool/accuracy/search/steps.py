"""The steps of ``quantize`` that make a quantized model of a plan."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass

from qdqtool.accuracy.layers.dominant_layer import with_dominant_in_float
from qdqtool.errors import GateError
from qdqtool.linting import rules
from qdqtool.linting.findings import Finding
from qdqtool.linting.policy import Linter, Policy
from qdqtool.linting.report import validate_report
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.io.offload import offloaded
from qdqtool.models.graph.model import Model, Transformed
from qdqtool.models.plan import QuantPlan
from qdqtool.models.transforms.taps import TensorKey
from qdqtool.quantization.insertion.apply_plan import QuantizedTensor, apply_plan
from qdqtool.quantization.insertion.pair_edits import WeightStorage
from qdqtool.quantization.insertion.split_qkv import separate_projections
from qdqtool.quantization.planning.high_precision import (
    HighPrecision,
    HighPrecisionReport,
    known_magnitudes,
    lower,
    measure_magnitudes,
)
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.quantization.preparation.bias_correction import correct_biases
from qdqtool.quantization.preparation.plan_inputs import PlanInputs
from qdqtool.quantization.ranges.types import Ranges


def require_valid(
    quantized: Model, source: Model, target: str, lossy: Container[tuple[str, str]] = (), way_out: str = ""
) -> tuple[Finding, ...]:
    """Find what the linter says of a quantized model, and refuse one with errors.

    Args:
        quantized: The model.
        source: The model that it was made of: a fault that it has already is named as such.
        target: What the model is for.
        lossy: Scope and name of each tensor of which the caller reports that most of its values are lost. Where an
            outlier was clipped, the tensor behind it cannot fill the range that calibration saw, which QN504 reports:
            that error alone is returned as a finding.
        way_out: What the user can do about faults that ``source`` has already, besides the rule's remedy.

    Raises:
        GateError: There is another error; the message has the first.
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
        hint=f"the model has these errors already: {rules.get(first.code).remedy}{way_out}" if known else None,
    )


def _findings(model: Model, target: str) -> tuple[Finding, ...]:
    return validate_report([Linter(Policy(targets=(target,))).model(model)]).findings


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantized:
    """A quantized model in memory, and what each step reports."""

    model: Model
    pairs: tuple[QuantizedTensor, ...]
    corrected: tuple[str, ...]
    separated: tuple[str, ...]
    high_precision: HighPrecisionReport | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizeSteps:
    """Carries out plans for one float model, each in the same way.

    Attributes:
        ready: The float model that plans are made for: prepared, its opset raised where that is needed.
        inputs: Where it came from.
        recipe: What is quantized.
        weights: How quantized constants are stored.
        magnitudes: Largest magnitudes of tensors on the choosing part of the data; empty where nothing becomes float16.
    """

    ready: Model
    inputs: PlanInputs
    recipe: Recipe
    weights: WeightStorage
    magnitudes: Mapping[TensorKey, float]

    @classmethod
    def of(cls, ready: Model, inputs: PlanInputs, recipe: Recipe, weights: WeightStorage) -> QuantizeSteps:
        """Return the steps for a float model; its tensors are measured where some become float16."""
        recipe = with_dominant_in_float(recipe, inputs.prepared.record)
        half, choosing = recipe.high_precision is HighPrecision.FP16, inputs.choosing
        measured = measure_magnitudes(inputs.prepared.model, choosing) if half and choosing is not None else {}
        return cls(ready=ready, inputs=inputs, recipe=recipe, weights=weights, magnitudes=measured)

    def carry_out(self, plan: QuantPlan, ranges: Ranges | None) -> Quantized:
        """Put a plan into the model, and take the steps that follow.

        Args:
            plan: The pairs.
            ranges: The ranges that they were planned with; None where there are none.
        """
        prepared = self.inputs.prepared
        placed = apply_plan(self.ready, plan, self.weights)
        corrected = correct_biases(placed.model, ModelIndex.of(prepared.model), plan, prepared.means)
        separated = separate_projections(corrected.model, self.recipe.target)
        lowered: Transformed[HighPrecisionReport | None] = Transformed(separated.model, None)
        if self.recipe.high_precision is HighPrecision.FP16:
            lowered = lower(separated.model, known_magnitudes(self.magnitudes, ranges))
        return Quantized(
            # Spilled, so that codes are computed once, and not for every session and the file. Without data no session
            # runs, and large codes are made for the file alone: int4 of 0.93 billion parameters took 8.2 s
            # offloaded, and takes 7.6 s.
            model=lowered.model if self.inputs.measuring is None else offloaded(lowered.model),
            pairs=placed.report,
            corrected=corrected.report,
            separated=separated.report,
            high_precision=lowered.report,
        )
