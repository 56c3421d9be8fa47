"""Measure whether a change of weights improves the accuracy of the quantized model.

A step proposes a change because it expects less noise in the products that read the changed tensors. This module
measures how much of that noise reaches the outputs. The model is quantized with and without the change, both run on a
few samples in the reference session, and their outputs are compared with those of the float model.

Factors follow the largest values of the samples that they come from, without a margin for larger values. A PointNet,
whose outputs are the largest of many points, gained 2.9 dB on these samples, and lost 11 dB on others. So samples
alternate between two folds. The change and the ranges are computed from one fold, and the outputs are compared on the
other fold; then the folds swap roles. So all samples judge.

Few samples often show a gain by chance: a change that gained 0.3 dB on 2 samples cost a digit classifier 14 dB on
unseen samples. So the mean gain of the samples must exceed its standard error. Measured on the five sample models and
the five real models with 4 to 32 samples: without these rules, 12 of 53 changes lost more than 0.5 dB on unseen
samples; with both, 2 of 39 did.

Pairs are placed on all weights and on all activations that are multiplied with weights: these tensors change, and their
ranges are already known. Activations that are multiplied with no weight (both inputs of a residual Add) have the same
values with and without the change, and stay float here. Ranges are the largest magnitudes that were measured.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

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
from qdqtool.numerics.dtypes import FLOAT64, Array
from qdqtool.numerics.noise import Noise, standard_error
from qdqtool.quantization.calibration_report import Trial, TrialOutput
from qdqtool.quantization.insertion.apply_plan import apply_plan
from qdqtool.quantization.planning.high_precision import rule_for
from qdqtool.quantization.planning.options import HighPrecision
from qdqtool.quantization.planning.placement import ProposedSlot
from qdqtool.quantization.planning.planner import index_to_plan
from qdqtool.quantization.preparation.bias_correction import correct_biases
from qdqtool.quantization.preparation.step import ProposedChange, Slots
from qdqtool.quantization.statistics.channel_statistics import FOLDS, ChannelData, ChannelStatistics

MIN_SAMPLES, MAX_SAMPLES = 2, 64
"""Smallest and largest number of samples to run, if there are so many."""

ENOUGH_VALUES = 1 << 22
"""Number of activation values over all samples with which chance averages out. Smaller models run more samples."""

OutputErrors = Sequence[Mapping[str, AccumulatedError]]
"""The errors of the outputs by name, one entry for each sample."""

LEAST_GAIN_DB = 0.05
"""Smallest gain for which a change is made; a change without effect is not made."""

LARGEST_LOSS_DB = 1.0
"""How much one output may get worse if all get better on average: chance alone can do this to one of several outputs.
"""


class TrialRunner:
    """Tries the proposed changes of a model, one after another.

    Args:
        data: Statistics of the channels, with the samples and the sessions to run them in.
        slots: Returns the slots of the pairs.
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

        Returns:
            The measured effect. If nothing can be measured, the change is kept, because it is expected to help.
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
        """Return the errors: of each fold's change on the other fold, or of a single change on all samples."""
        errors: list[Mapping[str, AccumulatedError]] = []
        for fold, make in enumerate(changes):
            splits, change = len(changes) > 1, make()
            known = {key: found.of_fold(fold) for key, found in seen.items()} if splits else dict(seen)
            rescaled = {key: known[key].divided(by) for key, by in change.rescaled.items() if key in known}
            errors += self._errors(_Variant(change.model, {**known, **rescaled}), fold if splits else None)
            # The weights on disk are freed before the weights of the next change are written.
            del change
        return errors

    def _errors(self, variant: "_Variant", fold: int | None) -> OutputErrors:
        """Return the error of each float output of the quantized variant, on each sample outside this fold."""
        if not self._expected:
            self._expected = list(self._float_outputs(variant.model))
        feeds, errors = self._data.feeds.first(len(self._expected)), []
        # The float session is closed, so that only one model is in memory; its outputs are kept.
        self._data.runs.close()
        # Offloaded to disk, so that the session maps the codes into memory; all cores compute them.
        quantized = offloaded(self._quantized(variant))
        with open_session(quantized, plan_split(ModelIndex.of(quantized))) as session:
            judges = [number for number in range(len(self._expected)) if number % FOLDS != fold]
            samples = (sample for number, sample in enumerate(feeds) if number % FOLDS != fold)
            runs = run_each(session, samples, list(self._expected[0]), self._data.runs.values)
            for number, found in zip(judges, runs, strict=True):
                expected = self._expected[number]
                errors.append({name: AccumulatedError.of(array, found[name]) for name, array in expected.items()})
        return errors

    def _float_outputs(self, model: Model) -> Iterator[Mapping[str, Array]]:
        """Yield the float outputs of the model without the change, by sample: from earlier runs, or run now."""
        runs, feeds = self._data.runs, self._data.feeds
        index = runs.index_of(model)
        main = index.view.main
        names = [name for name in main.output_names() if index.is_float(main.values[name])]
        count = min(max(ENOUGH_VALUES // max(runs.values, 1), MIN_SAMPLES) * FOLDS, MAX_SAMPLES)
        for found in runs.first(model, feeds, count):
            yield {name: found[name] for name in names if name in found}

    def _quantized(self, variant: "_Variant") -> Model:
        index = index_to_plan(variant.model)
        plan = QuantPlan(tuple(variant.placements(index, self._slots)))
        quantized = apply_plan(variant.model, plan).model
        means = {key: found.mean for key, found in variant.seen.items()} if self._correct else {}
        return correct_biases(quantized, index, plan, means).model


@dataclass(frozen=True, slots=True)
class _Variant:
    """A float model to quantize, and statistics of the tensors that are multiplied with its weights."""

    model: Model
    seen: Mapping[TensorKey, ChannelStatistics]

    def placements(self, index: ModelIndex, slots: Slots) -> Iterator[Placement]:
        """Yield the pairs, except pairs of tensors without a known type or a finite range."""
        ranges = side_by_side(_placed, self._ranged(index, slots), lambda each: each[2].nbytes > LARGE)
        yield from (placement for placement in ranges if placement is not None)

    def _ranged(self, index: ModelIndex, slots: Slots) -> Iterator[tuple[ProposedSlot, int, Array]]:
        """Yield each slot with the type of its tensor, and the constant or the largest magnitude of the activation."""
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

    The noise of an output is compared with its own noise before, in dB, so large or noisy outputs do not matter more
    than others. A change is kept if

    * the noise over all samples falls by at least :data:`LEAST_GAIN_DB` on average, and grows by more than
      :data:`LARGEST_LOSS_DB` at no output (samples with the most noise decide this);
    * the mean decrease for single samples and outputs is at least :data:`LEAST_GAIN_DB` and its standard error.

    Args:
        before: The errors of the outputs without the change, one entry for each sample, at least one.
        after: The errors of the outputs with the change.
    """
    first, last = _joined(before), _joined(after)
    names = [name for name, error in first.items() if error.elements]
    outputs = tuple(
        TrialOutput(name=name, without_db=_rounded(first[name]), with_db=_rounded(last[name])) for name in first
    )
    if not names:
        return Trial(samples=len(before), kept=True, outputs=outputs, problem="the model has no float outputs")
    one, two = _noises([first], [last], names)
    whole = one.output_gains_db(two)
    gain, error = _sample_gain_db(before, after, names)
    kept = whole.min() >= -LARGEST_LOSS_DB and whole.mean() >= LEAST_GAIN_DB and gain >= max(LEAST_GAIN_DB, error)
    return Trial(
        samples=len(before),
        kept=bool(kept),
        outputs=outputs,
        sample_gain_db=round(gain, 2),
        gain_error_db=round(error, 2),
    )


def _joined(errors: OutputErrors) -> dict[str, AccumulatedError]:
    return {name: AccumulatedError.joined(sample[name] for sample in errors) for name in errors[0]}


def _sample_gain_db(before: OutputErrors, after: OutputErrors, names: Sequence[str]) -> tuple[float, float]:
    """Return the mean gain of the samples in dB, and its standard error, which is 0 for one sample."""
    one, two = _noises(before, after, names)
    gains = one.sample_gains_db(two).mean(axis=1)
    left_out = (gains.sum() - gains) / max(len(gains) - 1, 1)
    return float(gains.mean()), float(standard_error(left_out))


def _noises(before: OutputErrors, after: OutputErrors, names: Sequence[str]) -> tuple[Noise, Noise]:
    """Return the noise without and with the change; the side with more NaN or infinite values has infinite noise."""

    def of(errors: OutputErrors, others: OutputErrors) -> Noise:
        noise = [
            [
                np.inf if one[name].nonfinite_mismatches > two[name].nonfinite_mismatches else one[name].noise
                for name in names
            ]
            for one, two in zip(errors, others, strict=True)
        ]
        return Noise(np.array([[one[name].signal for name in names] for one in errors], FLOAT64), np.array(noise))

    return of(before, after), of(after, before)


def _rounded(error: AccumulatedError) -> float | None:
    return None if error.sqnr_db is None else round(error.sqnr_db, 2)
