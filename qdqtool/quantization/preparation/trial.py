"""Measure whether a change of weights improves the accuracy of the quantized model.

A step proposes a change because it expects less noise where the changed tensors are read. How much of that noise
reaches the outputs is measured here: the model is quantized with and without the change, both are run on a few samples
in the reference session, and their outputs are compared with those of the float model.

Factors follow the largest values of the samples that they come from, and leave no room for larger ones: a PointNet,
whose outputs are the largest of many points, gained 2.9 dB on these samples, and lost 11 dB on others. So samples
alternate between two folds. The change is made, and ranges are found, with each fold alone, and the outputs are
compared on the other fold. All samples judge.

Few samples often gain by chance: a digit classifier lost 14 dB on unseen samples by a change that 2 samples had praised
with 0.3 dB. So the mean of the gains of the samples must exceed its standard error. Measured on the five sample models
and the five real ones with 4 to 32 samples: 12 of 53 changes that were made lost more than 0.5 dB on unseen samples,
and 2 of 39 with both rules.

Pairs are placed where placement proposes them, on all weights and on all activations that weights are multiplied with:
these change, and their ranges are known already. Activations that are multiplied with no weight (both inputs of a
residual Add) have the same values with and without the change, and stay float here. Ranges are the largest magnitudes
seen.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf, log10

import numpy as np

from qdqtool.errors import QdqError
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import Value
from qdqtool.models.graph.io.offload import offloaded
from qdqtool.models.graph.model import Model
from qdqtool.models.plan import Placement, QuantPlan
from qdqtool.models.running.accumulated_error import AccumulatedError
from qdqtool.models.running.own_evaluator import open_session, run_each
from qdqtool.models.running.own_support import plan_split
from qdqtool.models.transforms.taps import TensorKey, tensor_key
from qdqtool.numerics.cores import LARGE, side_by_side
from qdqtool.numerics.derive import scale_from_range, scale_from_tensor
from qdqtool.numerics.dtypes import Array
from qdqtool.quantization.insertion.apply_plan import apply_plan
from qdqtool.quantization.planning.high_precision import HighPrecision, rule_for
from qdqtool.quantization.planning.placement import ProposedSlot
from qdqtool.quantization.planning.planner import index_to_plan
from qdqtool.quantization.preparation.bias_correction import correct_biases
from qdqtool.quantization.preparation.step import ProposedChange, Slots
from qdqtool.quantization.ranges.types import Trial, TrialOutput
from qdqtool.quantization.statistics.channel_statistics import FOLDS, ChannelData, ChannelStatistics

MIN_SAMPLES, MAX_SAMPLES = 2, 64
"""Bounds of the number of samples that are run, if there are so many."""

ENOUGH_VALUES = 1 << 22
"""Values of activations in all samples that suffice to average chance out: smaller models run more samples."""

OutputErrors = Sequence[Mapping[str, AccumulatedError]]
"""The errors of the outputs by name, one entry a sample."""

LEAST_GAIN_DB = 0.05
"""Smallest gain for which a change is made: one that makes no difference is not."""

LARGEST_CHANGE_DB = 300.0
"""A larger change of noise on a sample counts as this one: values may become infinite, or exact."""

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
        self._before: tuple[Model, bool, OutputErrors] | None = None

    def run(self, model: Model, change: ProposedChange) -> Trial:
        """Quantize a model with and without a change.

        Args:
            model: The float model without it.
            change: The change.

        Returns:
            What was measured. Where nothing can be measured, the change is kept: it is expected to help.
        """
        seen = {tensor_key(value): found for value, found in self._data.of(ModelIndex.of(model)).items()}
        splits = len(change.rehearsals) == FOLDS and all(found.folds for found in seen.values())
        try:
            if self._before is None or self._before[0] is not model or self._before[1] != splits:
                unchanged = [lambda: ProposedChange(model=model)] * (FOLDS if splits else 1)
                self._before = model, splits, self._judged(unchanged, seen)
            after = self._judged(change.rehearsals if splits else [lambda: change], seen)
            return decide(self._before[2], after)
        except QdqError as error:
            return Trial(samples=0, kept=True, problem=error.message)

    def _judged(
        self, changes: Sequence[Callable[[], ProposedChange]], seen: Mapping[TensorKey, ChannelStatistics]
    ) -> OutputErrors:
        """The errors of the change of each part of the samples on the other part; of one change on all samples."""
        errors: list[Mapping[str, AccumulatedError]] = []
        for fold, make in enumerate(changes):
            splits, change = len(changes) > 1, make()
            known = {key: found.of_fold(fold) for key, found in seen.items()} if splits else dict(seen)
            rescaled = {key: known[key].divided(by) for key, by in change.rescaled.items() if key in known}
            errors += self._errors(_Candidate(change.model, {**known, **rescaled}), fold if splits else None)
            # Its weights leave the disk before those of the next one come.
            del change
        return errors

    def _errors(self, candidate: "_Candidate", fold: int | None) -> OutputErrors:
        """The error of each float output of the quantized candidate, on each sample that is not of this part."""
        if not self._expected:
            self._expected = list(self._float_outputs(candidate.model))
        feeds, errors = self._data.feeds.first(len(self._expected)), []
        # The float session is closed, so that only one model is in memory; its outputs are kept.
        self._data.runs.close()
        # Spilled, so that the session maps the codes, which are made on all cores.
        quantized = offloaded(self._quantized(candidate))
        with open_session(quantized, plan_split(ModelIndex.of(quantized))) as session:
            judges = [number for number in range(len(self._expected)) if number % FOLDS != fold]
            samples = (sample for number, sample in enumerate(feeds) if number % FOLDS != fold)
            runs = run_each(session, samples, list(self._expected[0]), self._data.runs.values)
            for number, found in zip(judges, runs, strict=True):
                expected = self._expected[number]
                errors.append({name: AccumulatedError.of(array, found[name]) for name, array in expected.items()})
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
        ranges = side_by_side(_placed, self._ranged(index, slots), lambda each: each[2].nbytes > LARGE)
        yield from (placement for placement in ranges if placement is not None)

    def _ranged(self, index: ModelIndex, slots: Slots) -> Iterator[tuple[ProposedSlot, int, Array]]:
        """Yield each slot with the type of its tensor, and the constant or the largest magnitude of its activation."""
        for entry in slots(index):
            value = index.value(entry.slot)
            array = self._range(entry, value) if entry.kind == "activation" else index.constant(value)
            elem_type = index.types.elem_type(value)
            if array is not None and elem_type is not None:
                yield entry, elem_type, array

    def _range(self, entry: ProposedSlot, value: Value) -> Array | None:
        found = self.seen.get(tensor_key(value))
        if found is None:
            return None
        return np.asarray(entry.bound if entry.bound is not None else found.peak.max())


def _placed(found: tuple[ProposedSlot, int, Array]) -> Placement | None:
    entry, elem_type, array = found
    if not np.isfinite(array).all():
        return None
    rule = rule_for(elem_type, HighPrecision.FP32)
    if entry.kind == "activation":
        return Placement(entry.slot, scale_from_range(-array, array, entry.scheme, rule), entry.reason)
    return Placement(entry.slot, scale_from_tensor(array, entry.scheme, rule), entry.reason)


def decide(before: OutputErrors, after: OutputErrors) -> Trial:
    """Decide whether a change is kept.

    The noise of an output is compared with its own noise before, in dB, so large or noisy outputs count no more than
    others. A change is kept if

    * the noise over all samples falls by :data:`LEAST_GAIN_DB` or more in the mean of the outputs, and grows by more
      than :data:`LARGEST_LOSS_DB` in none: that is the SQNR, which the loudest samples decide;
    * the noise of single samples falls by as much, and by its standard error, in the mean of samples and outputs.

    Args:
        before: The errors of the outputs without the change, one entry a sample, at least one.
        after: The same with it.
    """
    first, last = _joined(before), _joined(after)
    names = [name for name, error in first.items() if error.elements]
    outputs = tuple(
        TrialOutput(name=name, without_db=_rounded(first[name]), with_db=_rounded(last[name])) for name in first
    )
    if not names:
        return Trial(samples=len(before), kept=True, outputs=outputs, problem="the model has no float outputs")
    growth = [_noise_growth_db(first[name], last[name], first[name].signal) for name in names]
    gain, error = _gain_of_samples(before, after, {name: first[name].signal / len(before) for name in names})
    whole = max(growth) <= LARGEST_LOSS_DB and sum(growth) / len(growth) <= -LEAST_GAIN_DB
    kept = whole and gain >= max(LEAST_GAIN_DB, error)
    return Trial(
        samples=len(before), kept=kept, outputs=outputs, sample_gain_db=round(gain, 2), gain_error_db=round(error, 2)
    )


def _joined(errors: OutputErrors) -> dict[str, AccumulatedError]:
    return {name: AccumulatedError.joined(sample[name] for sample in errors) for name in errors[0]}


def _gain_of_samples(
    before: OutputErrors, after: OutputErrors, mean_signal: Mapping[str, float]
) -> tuple[float, float]:
    """Return the mean of the gains of samples in dB, and its standard error; 0 for one sample, which has no spread."""
    gains = np.array(
        [
            [
                -_noise_growth_db(one[name], two[name], max(one[name].signal, signal))
                for name, signal in mean_signal.items()
            ]
            for one, two in zip(before, after, strict=True)
        ]
    )
    each = np.clip(gains, -LARGEST_CHANGE_DB, LARGEST_CHANGE_DB).mean(axis=1)
    error = each.std(ddof=1) / np.sqrt(len(each)) if len(each) > 1 else 0.0
    return float(each.mean()), float(error)


def _noise_growth_db(before: AccumulatedError, after: AccumulatedError, signal: float) -> float:
    """Return the growth of the noise of an output in dB; infinity where more of its values are NaN or infinite."""
    # Noise below one rounding of a tensor with this ``signal`` counts for nothing.
    if after.nonfinite_mismatches != before.nonfinite_mismatches:
        return inf if after.nonfinite_mismatches > before.nonfinite_mismatches else -inf
    if before.noise == after.noise:
        return 0.0
    least = float(np.finfo(np.float32).eps) ** 2 * signal
    first, second = max(before.noise, least), max(after.noise, least)
    return 10 * log10(second / first) if first and second else 0.0


def _rounded(error: AccumulatedError) -> float | None:
    return None if error.sqnr_db is None else round(error.sqnr_db, 2)
