"""Measure what ``quantize`` costs, on samples with which nothing was chosen.

The ranges of the written model are those of all samples. On held-back samples it would look better than on any other
data. So a rehearsal is measured there: the model that the same steps give with the ranges of the choosing part alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from qdqtool.accuracy.checking.accuracy import Accuracy, MeasuredModel, ZeroedTensor, measure_accuracy
from qdqtool.accuracy.search.steps import Quantized, QuantizeSteps
from qdqtool.accuracy.task_metrics.measure import Measure, MetricResult, RequestedMetric, Score
from qdqtool.accuracy.task_metrics.request import MetricRequest, compared, labelled_for, load_metric
from qdqtool.errors import UsageError
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model
from qdqtool.models.plan import Placement, QuantPlan
from qdqtool.models.running.own_evaluator import open_session
from qdqtool.models.running.own_support import plan_split
from qdqtool.numerics.dtypes import Array
from qdqtool.quantization.planning.degenerate import DegenerateTensor
from qdqtool.quantization.planning.high_precision import HighPrecision, magnitudes_in
from qdqtool.quantization.planning.planners import PlanData, planner_for
from qdqtool.quantization.ranges.types import Ranges
from qdqtool.quantization.statistics.float_runs import FloatRuns, run_sample
from qdqtool.samples import Feeds, Sample


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What was measured.

    Attributes:
        accuracy: The cost of quantizing; None where there is no data.
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
) -> Measured:
    """Measure the accuracy of a quantized model on the samples that there are for it.

    Args:
        made: The model that will be written.
        plan: Its pairs.
        index: The index of the model that was planned for.
        steps: Made the model; they make the rehearsal too.
        runs: Runs the float model; its session is closed afterwards.
        metric: Measures a task metric too.
    """
    inputs = steps.inputs
    if inputs.measuring is None:
        return Measured(accuracy=None, loaded=False)
    try:
        rehearsal = _rehearsal(plan, index, steps)
    except UsageError as error:
        problem = f"the choosing part of the samples gives no model: {error.message}"
        return Measured(accuracy=Accuracy(samples=0, problem=problem), loaded=False)
    opened: list[Model] = []

    def make() -> Model:
        opened.append(made.model if rehearsal is None else steps.carry_out(*rehearsal).model)
        return opened[0]

    measured, written = (plan, None) if rehearsal is None else (rehearsal[0], plan)
    candidate = MeasuredModel(make=make, plan=measured, written=written)
    cost = measure_accuracy(inputs.prepared.model, candidate, inputs.measuring, runs)
    if metric is not None and not cost.problem:
        cost = replace(cost, metric=metric.of(inputs.prepared.model, opened[0], inputs.measuring.feeds, runs))
    return Measured(accuracy=cost, loaded=not cost.problem and _has_nodes_of(made.model, opened[0]))


def _rehearsal(plan: QuantPlan, index: ModelIndex, steps: QuantizeSteps) -> tuple[QuantPlan, Ranges] | None:
    """Return the plan with the ranges of the choosing part; None where it is the same, or where none is held back."""
    ranges, measuring = steps.inputs.ranges, steps.inputs.measuring
    if ranges is None or ranges.choosing is None or measuring is None or not measuring.held_back:
        return None
    chosen = replace(ranges, tensors=ranges.choosing, choosing=None)
    weights = {place.slot: place.params for place in plan}
    found = planner_for(steps.recipe, PlanData(ranges=chosen, weights=weights)).plan(index).plan
    # The ranges also decide which nodes become float16.
    lowers = steps.recipe.high_precision is HighPrecision.FP16
    same = not lowers or magnitudes_in(ranges) == magnitudes_in(chosen)
    return None if same and _are_same(plan, found) else (found, chosen)


def _are_same(one: QuantPlan, two: QuantPlan) -> bool:
    return len(one) == len(two) and all(map(_is_same, one, two))


def _is_same(one: Placement, two: Placement) -> bool:
    first, second = one.params, two.params
    return one.slot == two.slot and (
        first is second or (first.scheme == second.scheme and np.array_equal(first.scale, second.scale))
    )


def _has_nodes_of(one: Model, two: Model) -> bool:
    """Return whether two models have the same nodes, so that a session that loads one loads the other."""
    return one is two or list(one.proto.graph.node) == list(two.proto.graph.node)


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


def with_measured(known: tuple[DegenerateTensor, ...], cost: Accuracy | None) -> tuple[DegenerateTensor, ...]:
    """Return degenerate tensors and those that only a measurement shows: without counts only the maximum is known.

    Args:
        known: Those that were found when the scales were derived; they are not repeated.
        cost: The measurement; None where nothing was measured.
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
            f"NOT clipped: {zeroed.share:.4%} of the values that are not 0 become 0 on {samples} samples; look at it "
            "with method auto, which counts values and can clip strays, or exclude what reads it"
        ),
    )
