"""Measure whether a change of weights improves the accuracy of the quantized model.

A step proposes a change because it expects less noise where the changed tensors are read. How much of that noise
reaches the outputs is measured here: the model is quantized with and without the change, both are run on a few samples
in the reference session, and their outputs are compared with those of the float model.

What data has chosen it praises: factors that follow the largest values of some samples leave no room for larger ones.
So where there are several samples, the change is made, and ranges are found, as every other sample alone would have it,
and the outputs are compared on the rest. (A PointNet, whose outputs are the largest of many points, gained 2.9 dB on
the samples that its equalisation came from, and lost 11 dB on others.)

Pairs are placed where placement proposes them, on all weights and on all activations that weights are multiplied with:
these change, and their ranges are known already. Activations that are multiplied with no weight (both inputs of a
residual Add) have the same values with and without the change, and stay float here. Ranges are the largest magnitudes
seen.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import inf, log10

import numpy as np

from qdqtool.errors import QdqError
from qdqtool.graph.index.model_index import ModelIndex
from qdqtool.graph.index.view import Value
from qdqtool.graph.io.spill import spilled
from qdqtool.graph.model import Model
from qdqtool.insertion.apply_plan import apply_plan
from qdqtool.numerics.derive import scale_from_range, scale_from_tensor
from qdqtool.numerics.dtypes import Array
from qdqtool.plan import Placement, QuantPlan
from qdqtool.planning.placement import ProposedSlot
from qdqtool.planning.planner import index_to_plan
from qdqtool.planning.scale_type import HighPrecision, rule_for
from qdqtool.preparation.bias_correction import correct_biases
from qdqtool.preparation.step import Change, Slots
from qdqtool.ranges.types import Trial, TrialOutput
from qdqtool.running.accumulated_error import AccumulatedError
from qdqtool.running.channel_statistics import FOLDS, ChannelData, ChannelStatistics
from qdqtool.running.own_evaluator import open_session
from qdqtool.running.own_support import plan_split
from qdqtool.transforms.taps import TensorKey, tensor_key

MIN_SAMPLES, MAX_SAMPLES = 2, 16
"""Bounds of the number of samples that are run, if there are so many."""

ENOUGH_VALUES = 1 << 22
"""Values of activations in all samples that suffice to average chance out: smaller models run more samples."""

LEAST_GAIN_DB = 0.05
"""Smallest gain for which a change is made: one that makes no difference is not."""

LARGEST_LOSS_DB = 1.0
"""By how much one output may get worse while all get better on average: chance does as much to one of several."""


class TrialRunner:
    """Tries the proposed changes of a model, one after another.

    Args:
        data: Statistics of the channels, with the samples and the sessions to run them in.
        slots: Where pairs go.
        correct: Whether biases are corrected.
    """

    def __init__(self, data: ChannelData, slots: Slots, *, correct: bool) -> None:
        self._data = data
        self._slots = slots
        self._correct = correct
        self._expected: list[Mapping[str, Array]] = []
        self._before: tuple[Model, bool, dict[str, AccumulatedError]] | None = None

    def run(self, model: Model, change: Change) -> Trial:
        """Quantize a model with and without a change.

        Args:
            model: The float model without it.
            change: The change.

        Returns:
            What was measured. Where nothing can be measured, the change is kept: it is expected to help.
        """
        seen = {tensor_key(value): found for value, found in self._data.of(ModelIndex.of(model)).items()}
        splits = change.rehearsal is not None and all(found.folds for found in seen.values())
        if splits and change.rehearsal is not None:
            change = change.rehearsal()
            # Two changed models are in memory meanwhile, this one and that of the change.
            change = replace(change, model=spilled(change.model))
            seen = {key: found.of_first_fold() for key, found in seen.items()}
        changed = {key: found.divided(change.rescaled[key]) for key, found in seen.items() if key in change.rescaled}
        try:
            if self._before is None or self._before[0] is not model or self._before[1] != splits:
                self._before = model, splits, self._errors(_Candidate(model, seen), splits=splits)
            after = self._errors(_Candidate(change.model, {**seen, **changed}), splits=splits)
            return decide(self._before[2], after, len(self._judges(splits=splits)))
        except QdqError as error:
            return Trial(samples=0, kept=True, problem=error.message)

    def _judges(self, *, splits: bool) -> list[int]:
        """The numbers of the samples on which outputs are compared: those that are not of the first part."""
        return [number for number in range(len(self._expected)) if not splits or number % FOLDS]

    def _errors(self, candidate: "_Candidate", *, splits: bool) -> dict[str, AccumulatedError]:
        """The error of each float output of the quantized candidate, against the float model."""
        if not self._expected:
            self._expected = list(self._float_outputs(candidate.model))
        feeds, judges = self._data.feeds.first(len(self._expected)), self._judges(splits=splits)
        errors = {name: AccumulatedError() for name in self._expected[0]}
        # The float session is closed, so that only one model is in memory; its outputs are kept.
        self._data.runs.close()
        quantized = self._quantized(candidate)
        with open_session(quantized, plan_split(ModelIndex.of(quantized))) as session:
            for number, (expected, sample) in enumerate(zip(self._expected, feeds, strict=True)):
                if number not in judges:
                    continue
                found = session.run(sample, list(errors))
                for name, array in expected.items():
                    errors[name].add(array, found[name])
        return errors

    def _float_outputs(self, model: Model) -> Iterator[Mapping[str, Array]]:
        """The float outputs of the model without the change, sample by sample: kept from earlier runs, or run now."""
        runs, feeds = self._data.runs, self._data.feeds
        index = runs.index_of(model)
        main = index.view.main
        names = [name for name in main.output_names() if index.is_float(main.values[name])]
        count = min(max(ENOUGH_VALUES // max(runs.values, 1), MIN_SAMPLES) * FOLDS, MAX_SAMPLES)
        for found in runs.first(model, feeds, count):
            yield {name: found[name] for name in names if name in found}

    def _quantized(self, candidate: "_Candidate") -> Model:
        index = index_to_plan(candidate.model)
        plan = QuantPlan(tuple(candidate.placements(index, self._slots)))
        quantized = apply_plan(candidate.model, plan).model
        means = {key: found.mean for key, found in candidate.seen.items()} if self._correct else {}
        return correct_biases(quantized, index, plan, means).model


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A float model to be quantized, and statistics of the tensors that its weights are multiplied with."""

    model: Model
    seen: Mapping[TensorKey, ChannelStatistics]

    def placements(self, index: ModelIndex, slots: Slots) -> Iterator[Placement]:
        """The pairs, less those whose tensor has no known type or finite range."""
        for entry in slots(index):
            value = index.value(entry.slot)
            array = self._range(entry, value) if entry.kind == "activation" else index.constant(value)
            elem_type = index.types.elem_type(value)
            if array is None or elem_type is None or not np.isfinite(array).all():
                continue
            rule = rule_for(elem_type, HighPrecision.FP32)
            if entry.kind == "activation":
                yield Placement(entry.slot, scale_from_range(-array, array, entry.scheme, rule), entry.reason)
            else:
                yield Placement(entry.slot, scale_from_tensor(array, entry.scheme, rule), entry.reason)

    def _range(self, entry: ProposedSlot, value: Value) -> Array | None:
        found = self.seen.get(tensor_key(value))
        if found is None:
            return None
        return np.asarray(entry.bound if entry.bound is not None else found.peak.max())


def decide(before: Mapping[str, AccumulatedError], after: Mapping[str, AccumulatedError], samples: int) -> Trial:
    """Decide whether a change is kept.

    It is kept if the noise of the outputs falls by :data:`LEAST_GAIN_DB` or more on average, and grows by more than
    :data:`LARGEST_LOSS_DB` in no output. The noise of an output is compared with its own noise before, in dB, so large
    or noisy outputs count no more than others.

    Args:
        before: The errors of the outputs without the change, by name.
        after: The same with it.
        samples: On how many samples.
    """
    falls = [_noise_growth_db(before[name], after[name]) for name in before if before[name].elements]
    outputs = tuple(
        TrialOutput(name=name, without_db=_rounded(before[name]), with_db=_rounded(after[name])) for name in before
    )
    kept = not falls or (max(falls) <= LARGEST_LOSS_DB and sum(falls) / len(falls) <= -LEAST_GAIN_DB)
    problem = "" if falls else "the model has no float outputs"
    return Trial(samples=samples, kept=kept, outputs=outputs, problem=problem)


def _noise_growth_db(before: AccumulatedError, after: AccumulatedError) -> float:
    """Return the growth of the noise of an output in dB; infinity where more of its values are NaN or infinite."""
    if after.nonfinite_mismatches != before.nonfinite_mismatches:
        return inf if after.nonfinite_mismatches > before.nonfinite_mismatches else -inf
    if before.noise == after.noise:
        return 0.0
    # Noise below one rounding of the output itself is no loss.
    least = float(np.finfo(np.float32).eps) ** 2 * before.signal
    first, second = max(before.noise, least), max(after.noise, least)
    return 10 * log10(second / first) if first and second else 0.0


def _rounded(error: AccumulatedError) -> float | None:
    return None if error.sqnr_db is None else round(error.sqnr_db, 2)
