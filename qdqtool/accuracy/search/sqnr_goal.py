"""The target that every output keeps a given SQNR."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from qdqtool.accuracy.layers.prediction import ALL_QUANTIZED, SearchState, StateKey
from qdqtool.accuracy.layers.search import CURVE_STEP_DB
from qdqtool.accuracy.search.accuracy_goal import worst_db
from qdqtool.accuracy.search.goal import Goal, SearchOutcome, StateMeasurement, describe_levels
from qdqtool.errors import GateError
from qdqtool.numerics.noise import WORST_DB

MARGIN_DB = 0.3
"""The target of the search is raised by the missing SQNR and this margin."""

BEYOND_DB = 2 * WORST_DB
"""A target that no model keeps, so that the search tries every layer alone."""


@dataclass(slots=True, kw_only=True)
class SqnrGoal(Goal):
    """The target that every output keeps an SQNR.

    If the SQNR on hold-out samples is lower than on the samples of the search, the target of the search is raised.

    Attributes:
        target_db: The SQNR that the outputs must keep on the samples of the search.
    """

    target_db: float

    def propose(self) -> SearchState | None:
        """Return the cheapest state in which every output keeps the target, or None if only the float model does."""
        step = self.search.reach(self.target_db)
        if self.limits.is_kept(worst_db(self.first.measured.accuracy), -math.inf):
            # The search begins with every layer quantized.
            return self.search.steps[0]
        return None if step.shortfall_db > 0 or len(step.layers) == len(self.search.layers) else step

    def ask_more(self, found: SearchOutcome) -> None:
        """Raise the target by the SQNR that a model lacks."""
        lacking = self._goal_db - found.kept_db if math.isfinite(found.kept_db) else CURVE_STEP_DB
        self.target_db = max(self.target_db, found.step.worst_db) + lacking + MARGIN_DB

    def all_states(self) -> Sequence[SearchState]:
        """Return the states with at least one layer out of the quantized format, after every layer was tried alone."""
        # Ranges from few samples clip values of other samples, which the search cannot see.
        self.search.reach(BEYOND_DB)
        return [step for step in self.search.frontier() if step.share]

    def measurements(self) -> Mapping[StateKey, StateMeasurement]:
        """Return the SQNR on the hold-out samples."""
        kept = {ALL_QUANTIZED: self._first_db, **{key: found.kept_db for key, found in self.found.items()}}
        return {key: StateMeasurement(measured_db=decibels) for key, decibels in kept.items()}

    def metric_report(self, found: SearchOutcome) -> None:
        """Return None: there is no limit for a metric."""
        del found

    def missed(self) -> GateError:
        """Return the error, with the best SQNR found, and whether weights or activations limit it."""
        session, best = self.session, self.search.frontier()[-1]
        weights, activations = (session.worst_db(session.of_kind(constants=each)) for each in (False, True))
        kind = "weights" if weights < activations else "activations"
        kept = [self._first_db, *(found.kept_db for found in self.found.values())]
        lower = max((value for value in kept if math.isfinite(value)), default=None)
        hint = "more calibration data, or another quantize mode"
        return GateError(
            f"no quantized model was found whose outputs all keep {self._goal_db:.4g} dB: {_describe_db(kept[0])} with "
            f"every layer quantized; the search reached {_describe_db(best.worst_db)} with "
            f"{describe_levels(best, self.search)} on its own samples, and its best model has "
            f"{_describe_db(max(kept))} on the samples that measure. The {kind} limit it: {_describe_db(weights)} with "
            f"weights alone quantized, {_describe_db(activations)} with activations alone",
            hint=hint if lower is None else f"`--min-sqnr {math.floor(lower)}`; or {hint}",
        )

    @property
    def _goal_db(self) -> float:
        assert self.limits.min_sqnr_db is not None
        return self.limits.min_sqnr_db

    @property
    def _first_db(self) -> float:
        first = worst_db(self.first.measured.accuracy)
        return math.inf if first is None else first


def _describe_db(decibels: float) -> str:
    if decibels <= -WORST_DB:
        return "NaN or infinity"
    return "no noise" if decibels == math.inf else f"{decibels:.1f} dB"
