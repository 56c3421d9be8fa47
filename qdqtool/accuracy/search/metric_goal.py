"""The target for the loss of a task metric, and for the SQNR of every output if it has a limit too.

The search by noise at the outputs proposes states. The metric, measured on the selection samples in the session of the
search, decides when to stop.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from qdqtool.accuracy.layers.layer_runs import LayerRuns
from qdqtool.accuracy.layers.masked_runs import MetricRuns
from qdqtool.accuracy.layers.prediction import ALL_QUANTIZED, SearchState, StateKey
from qdqtool.accuracy.layers.search import CURVE_STEP_DB
from qdqtool.accuracy.search.accuracy_goal import AccuracyGoal
from qdqtool.accuracy.search.goal import Goal, SearchOutcome, StateMeasurement, describe_levels, first_that, metric_of
from qdqtool.accuracy.search.goal_report import MetricGoal
from qdqtool.accuracy.search.metric_data import CHOOSE, MEASURE, DataPart, refuse_coarse, upwards
from qdqtool.accuracy.task_metrics.measure import Score
from qdqtool.errors import GateError, UsageError
from qdqtool.numerics.noise import WORST_DB


@dataclass(slots=True, kw_only=True)
class MetricLossGoal(Goal):
    """The target that a task metric loses at most a given amount.

    Attributes:
        runs: The metric in the session of the search.
        reference: The score of the float model in this session.
        losses: The loss of each state in which the metric was measured.
        above_db: States of the search with a lower SQNR, in dB, are not proposed.
    """

    runs: MetricRuns
    reference: Score
    losses: dict[StateKey, float] = field(default_factory=dict)
    above_db: float = -math.inf

    def propose(self) -> SearchState | None:
        """Return the cheapest state with at least ``above_db`` that keeps the target on the selection samples."""
        while not (states := self._proposable()) or not self.is_expected_to_keep(states[-1]):
            if not self._search_on():
                return None
        return first_that(states, self.is_expected_to_keep)

    def ask_more(self, found: SearchOutcome) -> None:
        """Propose only states with a clearly higher SQNR than this one."""
        self.above_db = found.step.worst_db + CURVE_STEP_DB

    def all_states(self) -> Sequence[SearchState]:
        """Return all states that the search can find."""
        while self._search_on():
            pass
        return self.search.frontier()

    def keeps_state(self, step: SearchState) -> bool:
        """Return whether the model of a state keeps the target, also on the selection samples."""
        return self.is_expected_to_keep(step) and self.keeps(self.measure(step))

    def is_expected_to_keep(self, step: SearchState) -> bool:
        """Return whether a state keeps the target on the selection samples."""
        # The search uses a finite SQNR for outputs that are not finite.
        worst_db = step.worst_db if step.worst_db > -WORST_DB else -math.inf
        # The SQNR is known, so it is judged first: the metric needs a run of every sample.
        return self.limits.is_kept(worst_db, -math.inf) and self.limits.is_kept(worst_db, self.loss(step))

    def loss(self, step: SearchState) -> float:
        """Return the loss of the metric in a state, on the selection samples."""
        if step.key not in self.losses:
            score = self.runs.score(self.search.setting(step), f"the model with {describe_levels(step, self.search)}")
            self.losses[step.key] = self.runs.measure.loss(score.value, self.reference.value)
        return self.losses[step.key]

    def measurements(self) -> Mapping[StateKey, StateMeasurement]:
        """Return the losses on both parts of the samples, and the SQNR on the hold-out samples."""
        known = {key: StateMeasurement(metric_loss=loss) for key, loss in self.losses.items()}
        for key, found in self.found.items():
            before = known.get(key, StateMeasurement())
            known[key] = replace(before, measured_db=found.kept_db, measured_loss=found.loss)
        return known

    def metric_report(self, found: SearchOutcome) -> MetricGoal:
        """Return the loss of the metric against its limit."""
        measure, without, limit = self.runs.measure, metric_of(self.first).loss, self.limits.max_metric_loss
        assert limit is not None
        assert without is not None
        assert self.best is not None
        return MetricGoal(
            name=measure.name,
            output=measure.output,
            loss_unit=measure.loss_unit,
            max_loss=limit,
            loss_without=without,
            loss=found.loss,
            predictions=metric_of(self.best).predictions,
            choosing_loss=self.loss(found.step),
            choosing_predictions=self.reference.predictions,
            models=len({ALL_QUANTIZED, *self.found}),
        )

    def missed(self) -> GateError:
        """Return the error, with the loss of the best model found, and whether weights or activations limit it."""
        states = self.search.frontier()
        known = [self._best(step) for step in (states[0], states[-1])]
        best = min(known, key=lambda each: math.inf if math.isnan(each.loss) else each.loss)
        return metric_missed(self.limits, best, self.session, self.runs, self.reference)

    def require_resolution(self) -> None:
        """Check that the samples can show the limit, and that the float model is better than chance."""
        inputs, measured, limit = self.factory.steps.inputs, metric_of(self.first), self.limits.max_metric_loss
        assert inputs.choosing is not None
        assert inputs.measuring is not None
        assert limit is not None
        refuse_chance(measured.name, self.reference.chance)
        held, feeds = inputs.measuring.held_back, inputs.measuring.feeds
        parts = (
            DataPart(CHOOSE, len(inputs.choosing), self.reference.predictions),
            DataPart(MEASURE, len(feeds), measured.predictions, held_back=held),
        )
        refuse_coarse(limit, self.runs.measure, parts)

    def _proposable(self) -> list[SearchState]:
        return [step for step in self.search.frontier() if step.worst_db >= self.above_db]

    def _search_on(self) -> bool:
        """Search for a state with :data:`CURVE_STEP_DB` more SQNR; return whether a better state was found."""
        if not self.search.steps:
            self.search.reach(-math.inf)
            return True
        last = self.search.steps[-1]
        if not math.isfinite(last.worst_db):
            return False
        return self.search.reach(last.worst_db + CURVE_STEP_DB).worst_db > last.worst_db

    def _best(self, step: SearchState) -> Best:
        found = self.measure(step)
        worst_db = min(step.worst_db, found.kept_db)
        return Best(describe_levels(step, self.search), worst_db, max(self.loss(step), found.loss))


@dataclass(frozen=True, slots=True)
class Best:
    """The model with the smallest loss, if no model keeps the limits.

    Attributes:
        levels: How many layers left the quantized format, in words.
        worst_db: SQNR of its worst output: the lower value of the selection and the hold-out samples.
        loss: Loss of its metric: the larger value of the two.
    """

    levels: str
    worst_db: float
    loss: float


def refuse_chance(name: str, chance: str | None) -> None:
    """Refuse a float model whose metric is no better than chance.

    Raises:
        UsageError: The float model is no better than chance.
    """
    if chance is not None:
        raise UsageError(
            f"--max-metric-loss needs a better float model: {name} of the float model is no better than guessing: "
            f"{chance}",
            hint="give the labels of these samples, or more samples",
        )


def metric_missed(
    limits: AccuracyGoal, best: Best, session: LayerRuns, runs: MetricRuns, reference: Score
) -> GateError:
    """Return the error to raise if no model keeps the target."""
    limit, measure = limits.max_metric_loss, runs.measure
    assert limit is not None
    settings = (session.of_kind(constants=each) for each in (False, True))
    scores = (runs.score(setting, "the model with weights or activations in float") for setting in settings)
    weights, activations = (measure.loss(score.value, reference.value) for score in scores)
    # A NaN is the largest loss.
    kind = "activations" if not activations <= weights else "weights"
    unit = f" {measure.loss_unit}" if measure.loss_unit else ""
    noise = "" if limits.min_sqnr_db is None else f", with {best.worst_db:.1f} dB at the worst output"
    both = "" if limits.min_sqnr_db is None else f" and keeps {limits.min_sqnr_db:g} dB"
    hint = "more calibration data, or another quantize mode"
    options = _options_that_are_kept(limits, best)
    return GateError(
        f"no quantized model was found that loses at most {limit:g}{unit} of {measure.name}{both}: with "
        f"{best.levels} it loses {best.loss:.3g}{unit}{noise}. "
        f"The {kind} limit it: a loss of {weights:.3g}{unit} with weights alone quantized, "
        f"{activations:.3g}{unit} with activations alone",
        hint=hint if options is None else f"`{options}`; or {hint}",
    )


def _options_that_are_kept(limits: AccuracyGoal, best: Best) -> str | None:
    """Return options for limits that the best model keeps, or None if it keeps no limit."""
    assert limits.max_metric_loss is not None
    if not math.isfinite(best.loss) or best.worst_db <= -WORST_DB:
        return None
    loss = limits.max_metric_loss if best.loss <= limits.max_metric_loss else upwards(best.loss)
    options = f"--max-metric-loss {loss:g}"
    if limits.min_sqnr_db is None or best.worst_db >= limits.min_sqnr_db:
        return options
    return f"--min-sqnr {math.floor(best.worst_db)} {options}"
