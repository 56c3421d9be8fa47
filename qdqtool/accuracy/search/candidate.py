"""Make candidate models: plan, carry out the plan, validate, measure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace

from qdqtool.accuracy.checking.gptq_check import rounding_note
from qdqtool.accuracy.layers.fallback import FormatBits, SecondaryPlan
from qdqtool.accuracy.layers.layer import nodes_of, readers_of
from qdqtool.accuracy.layers.layer_runs import secondary_plan
from qdqtool.accuracy.layers.prediction import SearchState
from qdqtool.accuracy.search.half_search import DEFAULT_SQNR_DB, HalfRequest, convert_within
from qdqtool.accuracy.search.steps import Measurement, Quantized, QuantizeSteps, measure_cost, require_valid
from qdqtool.accuracy.task_metrics.request import MetricMeasurement
from qdqtool.errors import QdqError, UsageError
from qdqtool.linting.findings import Finding
from qdqtool.models import ops
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import NodeView
from qdqtool.models.graph.io.metadata import with_metadata
from qdqtool.models.graph.model import Model
from qdqtool.models.graph.scope import display
from qdqtool.models.plan import Placement, QuantPlan, Slot, UseRef
from qdqtool.models.targets import type_name
from qdqtool.quantization.planning import modes
from qdqtool.quantization.planning.existing_pairs import notes_beside
from qdqtool.quantization.planning.high_precision import high_precision_note
from qdqtool.quantization.planning.options import Existing
from qdqtool.quantization.planning.placement import FOR_ACCURACY, NodeId, SkippedNode
from qdqtool.quantization.planning.planner import Planned
from qdqtool.quantization.planning.planners import PlanData, planner_for
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.quantization.preparation.metadata import data_note, preparation_note
from qdqtool.quantization.preparation.plan_inputs import PlanInputs
from qdqtool.quantization.statistics.float_runs import FloatRuns
from qdqtool.samples.feeds import Progress
from qdqtool.samples.split import MeasuringData

COSTLY_DB = 0.5
"""If half precision costs an output more, nodes that stay float32 are searched."""


def ids_of(nodes: Iterable[NodeView]) -> frozenset[NodeId]:
    """Return the identifiers of nodes that a selection uses."""
    return frozenset((node.scope.path, node.key) for node in nodes)


def with_levels(recipe: Recipe, left: frozenset[NodeId], secondary: frozenset[NodeId]) -> Recipe:
    """Return the recipe with some nodes in float and others in the fallback format."""
    return replace(recipe, selection=replace(recipe.selection, float_nodes=left, fallback_nodes=secondary))


def bits_of(recipe: Recipe, plan: QuantPlan, index: ModelIndex) -> FormatBits:
    """Return the bits of weights at each level of a recipe with a fallback format."""
    assert recipe.fallback is not None
    secondary = modes.get(modes.fallback(recipe.quantize_mode, recipe.fallback))
    types = (type_name(index.types.elem_type(index.value(placement.slot)) or 0) for placement in plan)
    half = recipe.high_precision.half is not None or all("16" in each for each in types)
    return FormatBits(
        quantized=recipe.mode.weight_format.bits,
        fallback=secondary.weight_format.bits,
        unquantized=16 if half else 32,
        activations=recipe.mode.needs_ranges,
    )


def without(planned: Planned, index: ModelIndex, left: frozenset[NodeId], secondary: frozenset[NodeId]) -> Planned:
    """Return a plan of weights without the pairs that only the given nodes read.

    Args:
        planned: The plan.
        index: The index of the model that the plan was made for.
        left: Nodes that stay in float: they are skipped, with the reason.
        secondary: Nodes that get the pairs of another plan.
    """
    nodes = {(node.scope.path, node.key): node for node in index.view.nodes()}

    def is_gone(use: UseRef) -> bool:
        # A weight may reach its product through a Transpose.
        return any(
            (node.scope.path, node.key) in left | secondary for node in ops.computing_nodes(nodes[use.scope, use.node])
        )

    slots = ((placement, _kept(placement.slot, is_gone)) for placement in planned.plan)
    plan = QuantPlan(tuple(replace(placement, slot=slot) for placement, slot in slots if slot is not None))
    skipped = tuple(
        SkippedNode(node.label, node.op_type, display(node.scope.path), FOR_ACCURACY)
        for node in index.view.nodes()
        if (node.scope.path, node.key) in left
    )
    return replace(planned, plan=plan, skipped=planned.skipped + skipped)


def _kept(slot: Slot, is_gone: Callable[[UseRef], bool]) -> Slot | None:
    if slot.uses is None:
        return slot
    uses = tuple(use for use in slot.uses if not is_gone(use))
    return replace(slot, uses=uses) if uses else None


def joined(one: Planned, other: Planned, index: ModelIndex) -> Planned:
    """Return the pairs of two plans for different nodes of one model, in the order of the nodes.

    Args:
        one: A plan, with the nodes that it skips.
        other: A plan for some nodes, which skips all others for the accuracy.
        index: The index of the model that both plans were made for.
    """
    order = {(node.scope.path, node.key): number for number, node in enumerate(index.view.nodes())}

    def place(placement: Placement) -> int:
        return min((order[use.scope, use.node] for use in placement.slot.uses or ()), default=0)

    return replace(
        one,
        plan=QuantPlan(tuple(sorted((*one.plan, *other.plan), key=place))),
        skipped=one.skipped + tuple(node for node in other.skipped if node.reason is not FOR_ACCURACY),
        degenerate=one.degenerate + other.degenerate,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Candidate:
    """A quantized model that was not written yet."""

    planned: Planned
    made: Quantized
    findings: tuple[Finding, ...]
    measured: Measurement


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CandidateFactory:
    """Makes candidates that differ in the formats of layers.

    Attributes:
        given: The model as the user gave it.
        index: The index of the model that plans are made for.
        steps: Carry out a plan.
        data: The data for plans.
        runs: Runs the float model.
        metric: Measures the task metric of each model; None without a metric.
        hint: How the user can fix faults that ``given`` already has.
        tick: Called for each run of a sample while layers are measured, with the number of runs so far and the largest
            possible number.
    """

    given: Model
    index: ModelIndex
    steps: QuantizeSteps
    data: PlanData
    runs: FloatRuns
    hint: str
    metric: MetricMeasurement | None = None
    tick: Progress | None = None

    def first(self) -> Candidate:
        """Quantize with the recipe unchanged."""
        return self._finish(planner_for(self.steps.recipe, self.data).plan(self.index), self.steps)

    def with_accurate_half(self, first: Candidate) -> tuple[CandidateFactory, Candidate]:
        """Return the first candidate, and a factory with the same nodes in float32: those that cost an output too much.

        They are found with the float model: in a quantized model, codes change by chance, and outputs with them.
        """
        steps, outputs = self.steps, first.measured.accuracy.outputs if first.measured.accuracy is not None else ()
        half, choosing = steps.recipe.high_precision.half, steps.inputs.choosing
        known = ((each.float32_db, each.sqnr_db) for each in outputs)
        loses = any(full - db > COSTLY_DB for full, db in known if full is not None and db is not None)
        finite = all(each.finite for each in outputs)
        if half is None or choosing is None or choosing.description.seed is not None or (finite and not loses):
            return self, first
        request = HalfRequest(
            half=half, limit_db=DEFAULT_SQNR_DB[half], is_default=True, measured=steps.magnitudes, refuse=lambda _: ""
        )
        data = MeasuringData(feeds=choosing)
        with suppress(QdqError):
            found = convert_within(steps.ready, request, data, data, self.runs)
            if found.kept:
                steps = replace(steps, refuse=lambda node: found.request.loss(node, found.kept))
                better = replace(self, steps=steps)
                return better, better.first()
        return self, first

    def without_pairs(self, skipped: tuple[SkippedNode, ...]) -> Candidate:
        """Insert no pairs into a model that keeps its own; errors as :meth:`first`."""
        return self._finish(Planned(plan=QuantPlan(()), skipped=skipped), self.steps)

    def with_float_layers(self, step: SearchState, first: Candidate) -> Candidate:
        """Quantize with some layers in float and others in the fallback format; errors as :meth:`first`."""
        left, secondary = ids_of(nodes_of(step.layers)), ids_of(nodes_of(step.fallback))
        if not self.steps.recipe.mode.needs_ranges:
            # Codes that were chosen with data are not computed again.
            kept = without(first.planned, self.index, left, secondary)
            return self._finish(
                joined(kept, self._in_fallback(secondary), self.index) if secondary else kept, self.steps
            )
        recipe = with_levels(self.steps.recipe, left, secondary)
        planned = planner_for(recipe, self.data).plan(self.index)
        return self._finish(planned, replace(self.steps, recipe=recipe))

    def secondary_plan(self, first: Candidate) -> SecondaryPlan | None:
        """Return the plan of all quantized layers in the fallback format, or None if the recipe has no such format."""
        recipe = self.steps.recipe
        if recipe.fallback is None:
            return None
        try:
            plan = self._in_fallback(
                ids_of(node for each in first.planned.plan for node in readers_of(each, self.index))
            ).plan
        except UsageError:
            # No layer can have the fallback format, so layers that leave the format of the mode become float.
            plan = QuantPlan(())
        return secondary_plan(recipe.fallback, plan, bits_of(recipe, first.planned.plan, self.index))

    def _in_fallback(self, nodes: frozenset[NodeId]) -> Planned:
        recipe = with_levels(self.steps.recipe, ids_of(self.index.view.nodes()) - nodes, nodes)
        return planner_for(recipe, self.data).plan(self.index)

    def _finish(self, planned: Planned, steps: QuantizeSteps) -> Candidate:
        made = steps.carry_out(planned.plan, steps.inputs.ranges)
        made = replace(made, model=_with_notes(made, planned, steps.inputs, steps.recipe))
        # Rules read the notes, too.
        lossy = {(each.graph, each.tensor) for each in planned.degenerate if each.condition == "strays"}
        findings = require_valid(made.model, self.given, steps.recipe.target, lossy, self.hint)
        measured = measure_cost(made, planned.plan, self.index, steps, self.runs, self.metric)
        return Candidate(planned=planned, made=made, findings=findings, measured=measured)


def _with_notes(made: Quantized, planned: Planned, inputs: PlanInputs, recipe: Recipe) -> Model:
    prepared = inputs.prepared
    notes = {
        **high_precision_note(made.high_precision),
        **preparation_note(prepared.record),
        **rounding_note(ModelIndex.of(prepared.model), planned.plan),
        **data_note(inputs.used_for(planned), prepared, made.corrected, made.model),
    }
    return with_metadata(
        made.model, notes if recipe.existing is not Existing.KEEP else notes_beside(prepared.model, notes)
    )
