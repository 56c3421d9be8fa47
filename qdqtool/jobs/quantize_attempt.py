"""One attempt to quantize a model whose inputs are known: plan, carry out, validate, measure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from qdqtool import ops
from qdqtool.checking.gptq_metadata import rounding_note
from qdqtool.data.feeds import Progress
from qdqtool.findings import Finding
from qdqtool.graph.index.model_index import ModelIndex
from qdqtool.graph.index.view import NodeView
from qdqtool.graph.io.metadata import with_metadata
from qdqtool.graph.model import Model
from qdqtool.graph.scope import display
from qdqtool.jobs.quantize_accuracy import Measured, measure_cost
from qdqtool.jobs.quantize_steps import Quantized, QuantizeSteps
from qdqtool.jobs.validate import require_valid
from qdqtool.plan import QuantPlan, Slot, UseRef
from qdqtool.planning.existing import Existing
from qdqtool.planning.existing_pairs import notes_beside
from qdqtool.planning.high_precision import high_precision_note
from qdqtool.planning.placement import FOR_ACCURACY, SkippedNode
from qdqtool.planning.planner import Planned
from qdqtool.planning.planners import PlanData, planner_for
from qdqtool.planning.recipe import Recipe
from qdqtool.preparation.data_metadata import data_note
from qdqtool.preparation.plan_inputs import PlanInputs
from qdqtool.preparation.preparation_metadata import preparation_note
from qdqtool.running.float_runs import FloatRuns


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Attempt:
    """A quantized model that was not written yet.

    Attributes:
        planned: The decisions.
        made: The model.
        findings: What ``validate`` says of it.
        measured: What quantizing cost.
    """

    planned: Planned
    made: Quantized
    findings: tuple[Finding, ...]
    measured: Measured


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Attempts:
    """Makes attempts that differ in the layers that stay in float.

    Attributes:
        given: The model as the user gave it.
        index: The index of the model that plans are made for.
        steps: Carry out a plan.
        data: The data for plans.
        runs: Runs the float model.
        way_out: What the user can do about faults that ``given`` has already.
        tick: Told of every run of a sample while layers are measured, and how many there are at most.
    """

    given: Model
    index: ModelIndex
    steps: QuantizeSteps
    data: PlanData
    runs: FloatRuns
    way_out: str
    tick: Progress | None = None

    def first(self) -> Attempt:
        """Quantize as the recipe says.

        Raises:
            UsageError: Nothing can be quantized.
            GateError: The result would not pass ``validate``.
        """
        return self._finish(planner_for(self.steps.recipe, self.data).plan(self.index), self.steps)

    def leaving(self, nodes: Iterable[NodeView], first: Attempt) -> Attempt:
        """Quantize with some nodes in float; errors as :meth:`first`.

        Args:
            nodes: Nodes of the model that plans are made for.
            first: The attempt without that.
        """
        left = frozenset((node.scope.path, node.key) for node in nodes)
        recipe = self.steps.recipe
        if not recipe.mode.needs_ranges:
            # Codes that were chosen with data are not chosen anew.
            return self._finish(_without(first.planned, self.index, left), self.steps)
        recipe = _with_float(recipe, left)
        planned = planner_for(recipe, self.data).plan(self.index)
        return self._finish(planned, replace(self.steps, recipe=recipe))

    def _finish(self, planned: Planned, steps: QuantizeSteps) -> Attempt:
        made = steps.carry_out(planned.plan, steps.inputs.ranges)
        made = replace(made, model=_with_notes(made, planned, steps.inputs, steps.recipe))
        # Rules read the notes, too.
        lossy = {(each.graph, each.tensor) for each in planned.degenerate if each.condition == "strays"}
        findings = require_valid(made.model, self.given, steps.recipe.target, lossy, self.way_out)
        measured = measure_cost(made, planned.plan, self.index, steps, self.runs)
        return Attempt(planned=planned, made=made, findings=findings, measured=measured)


def _with_notes(made: Quantized, planned: Planned, inputs: PlanInputs, recipe: Recipe) -> Model:
    """Record in a quantized model how it was made."""
    prepared = inputs.prepared
    notes = {
        **high_precision_note(made.high_precision),
        **preparation_note(prepared.record),
        **rounding_note(ModelIndex.of(prepared.model), planned.plan),
        **data_note(inputs.used_for(planned), prepared, made.corrected),
    }
    return with_metadata(
        made.model, notes if recipe.existing is not Existing.KEEP else notes_beside(prepared.model, notes)
    )


def _with_float(recipe: Recipe, left: frozenset[tuple[tuple[str, ...], tuple[str, ...]]]) -> Recipe:
    return replace(recipe, selection=replace(recipe.selection, float_nodes=left))


def _without(planned: Planned, index: ModelIndex, left: frozenset[tuple[tuple[str, ...], tuple[str, ...]]]) -> Planned:
    """Return a plan of weights without the pairs that only these nodes read."""
    nodes = {(node.scope.path, node.key): node for node in index.view.nodes()}

    def is_left(use: UseRef) -> bool:
        # A weight may reach its product through a Transpose.
        return any((node.scope.path, node.key) in left for node in ops.computing_nodes(nodes[use.scope, use.node]))

    slots = ((placement, _kept(placement.slot, is_left)) for placement in planned.plan)
    plan = QuantPlan(tuple(replace(placement, slot=slot) for placement, slot in slots if slot is not None))
    skipped = tuple(
        SkippedNode(node.label, node.op_type, display(node.scope.path), FOR_ACCURACY)
        for node in index.view.nodes()
        if (node.scope.path, node.key) in left
    )
    return replace(planned, plan=plan, skipped=planned.skipped + skipped)


def _kept(slot: Slot, is_left: Callable[[UseRef], bool]) -> Slot | None:
    if slot.uses is None:
        return slot
    uses = tuple(use for use in slot.uses if not is_left(use))
    return replace(slot, uses=uses) if uses else None
