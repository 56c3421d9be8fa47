"""Making a float model ready for quantization: step after step, each kept only if it is proven to change nothing."""

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from qdqtool.data import Feeds
from qdqtool.errors import UsageError
from qdqtool.graph.io.spill import spilled
from qdqtool.graph.model import Model
from qdqtool.numerics.dtypes import Array
from qdqtool.planning.recipe import Preparation
from qdqtool.preparation.bias_correction import STEP as MEANS
from qdqtool.preparation.bias_correction import Means, decode_means, encode_means, shortened
from qdqtool.preparation.gate_limit import GATE_LIMIT, gate_limit
from qdqtool.preparation.step import Change, Site
from qdqtool.preparation.steps import known_steps, steps
from qdqtool.preparation.trial import Slots, TrialRunner
from qdqtool.ranges.types import PreparationStep, Ranges, Trial
from qdqtool.running.channel_statistics import ChannelData
from qdqtool.running.float_runs import FloatRuns, Outputs

_Choice = tuple[Change, float | None, Trial | None]
"""A change, the difference that it made to the outputs, and its trial, as far as they were measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparationReport:
    """What became of one step.

    Attributes:
        step: Its name.
        applied: Whether it was made.
        sites: Places that it changed, or would have changed.
        left: Places of the same kind that it leaves alone, with the reason.
        max_difference: Largest difference of an output from the given model on calibration samples, relative to the
            output's largest magnitude; None where there was nothing to do, or the ranges file vouches for it.
        limit: What that difference must not pass.
        trial: What the step did to the quantized model; None where that was not measured.
    """

    step: str
    applied: bool
    sites: tuple[Site, ...]
    left: tuple[Site, ...] = ()
    max_difference: float | None = None
    limit: float = GATE_LIMIT
    trial: Trial | None = None


@dataclass(frozen=True, slots=True)
class Prepared:
    """The float model that is calibrated and quantized, and how it differs from the one that was given.

    Attributes:
        model: The model.
        reports: What became of each step, in order.
        record: The steps that were made or tried, for a ranges file.
        means: Of the inputs of products, for bias correction; empty where that is not asked for.
    """

    model: Model
    reports: tuple[PreparationReport, ...] = ()
    record: tuple[PreparationStep, ...] = ()
    means: Means = field(default_factory=dict)


def prepare(
    model: Model,
    feeds: Feeds,
    runs: FloatRuns,
    asked: Preparation | None = None,
    *,
    rounded_inputs: bool = True,
    slots: Slots | None = None,
) -> Prepared:
    """Take the steps that are asked for, each unless it changes an output on the data by more than rounding.

    That is proven on few samples: a step changes the same weights for every sample, so more would show the same. Steps
    that rescale channels are also tried on the quantized model, and left if its outputs keep less with them.

    Args:
        model: The float model; it is not changed.
        feeds: Calibration data; of sharded data all of it, so that every shard takes the same steps.
        runs: Runs the model. Its session is of the prepared model afterwards.
        asked: Which steps.
        rounded_inputs: Whether activations will have steps of one size, which all channels of a tensor share.
        slots: Where pairs will go; None to try nothing.

    Raises:
        UsageError: The model fails on a sample.
        CapabilityError: ONNX Runtime is not installed or cannot run the model.
    """
    asked = asked or Preparation()
    gate, data = _Gate(model, feeds, runs), ChannelData(feeds, runs)
    reports: list[PreparationReport] = []
    record: list[PreparationStep] = []
    runner = None if slots is None else TrialRunner(data, slots, correct=asked.bias_correction)
    for step in steps(asked, rounded_inputs=rounded_inputs):
        change, difference, trial = _choice(step.changes(model, data), gate, partial(_judged, runner, model))
        harmless = difference is not None and difference <= gate.limit
        report = _report(step.name, change, applied=harmless, difference=difference)
        reports.append(replace(report, limit=gate.limit, trial=trial))
        if harmless:
            model = change.model
            data.rescale(change.rescaled)
            record.append(PreparationStep(step.name, change.parameters, trial))
        elif trial is not None:
            record.append(PreparationStep(step.name, {"joints": []}, trial))
    means = shortened(data.means(model)) if asked.bias_correction else {}
    if means:
        record.append(encode_means(means))
    return Prepared(model, tuple(reports), tuple(record), means)


def prepare_as_recorded(model: Model, record: Sequence[PreparationStep], asked: Preparation | None = None) -> Prepared:
    """The model as an earlier calibration prepared it. Nothing is run.

    Args:
        model: The float model; it is not changed.
        record: The steps that were made then.
        asked: What the user asks for now: it must not contradict the record.

    Raises:
        UsageError: It does; or a step is unknown, or its parameters do not fit the model.
    """
    asked = asked or Preparation()
    _check_agreement({entry.step for entry in record if entry.was_made}, asked)
    known = known_steps()
    means: Means = {}
    reports: list[PreparationReport] = []
    for entry in record:
        if entry.step == MEANS:
            means = decode_means(entry.parameters) if asked.bias_correction else {}
            continue
        if entry.step not in known:
            raise UsageError(
                f"the ranges were found after step '{entry.step}', which this qdqtool does not know",
                hint="calibrate again, or use the qdqtool that wrote them",
            )
        change = known[entry.step].replay(model, entry.parameters)
        model = change.model
        report = _report(entry.step, change, applied=bool(change.done), difference=None)
        reports.append(replace(report, trial=entry.trial))
    return Prepared(spilled(model), tuple(reports), tuple(record), means)


def _choice(changes: Iterator[Change], gate: "_Gate", judge: Callable[[Change], Trial | None]) -> _Choice:
    """The first change that stands its trial and passes the gate, with its difference and what the trial measured.

    Where there is none, one that did not, with what speaks against it: what a trial measured rather than a difference.
    Neither where there is nothing to do.
    """
    refused: list[_Choice] = []
    harmful: list[_Choice] = []
    for change in changes:
        if not change.done:
            return [*refused, *harmful, (change, None, None)][0]
        if any(change.done == other.done for other, _, _ in refused):  # the same change, made in another way
            continue
        candidate = replace(change, model=spilled(change.model))
        trial = judge(candidate)
        if trial is not None and not trial.kept:
            refused.append((candidate, None, trial))
            continue
        difference = gate.difference(candidate.model)
        if difference <= gate.limit:
            return candidate, difference, trial
        harmful.append((candidate, difference, None))
    return [*refused, *harmful][0]  # a step yields one change at least


def _judged(runner: TrialRunner | None, model: Model, change: Change) -> Trial | None:
    return runner.run(model, change) if runner is not None and change.on_trial else None


def _check_agreement(made: AbstractSet[str], asked: Preparation) -> None:
    hint = "calibrate again with the options that you want"
    if "equalization" in made and not asked.equalize:
        raise UsageError("the ranges were found after equalising the model, which --no-equalize forbids", hint=hint)
    if "smoothquant" in made and asked.smoothquant is None:
        raise UsageError("the ranges were found after smoothing the model, which --smoothquant off forbids", hint=hint)
    if "smoothquant" not in made and isinstance(asked.smoothquant, float):
        raise UsageError("the ranges were found without the step that --smoothquant asks for", hint=hint)


def _report(step: str, change: Change, *, applied: bool, difference: float | None) -> PreparationReport:
    return PreparationReport(step=step, applied=applied, sites=change.done, left=change.left, max_difference=difference)


class _Gate:
    """Compares models with the one that was given, both run in the same way, so that nothing but they differs."""

    def __init__(self, given: Model, feeds: Feeds, runs: FloatRuns) -> None:
        self._given = given
        self._feeds = feeds
        self._runs = runs
        self.limit = gate_limit(given)

    def difference(self, changed: Model) -> float:
        """The largest difference of any output over its largest magnitude; infinite where shapes differ, or NaN.

        Raises:
            UsageError: A model fails on a sample.
        """
        expected = self._runs.first(self._given, self._feeds)
        return largest_difference(expected, self._runs.first(changed, self._feeds))


def largest_difference(expected: Sequence[Outputs], found: Sequence[Outputs]) -> float:
    """The largest difference of any output over its largest magnitude in all runs.

    Args:
        expected: The outputs by name, one mapping a run.
        found: The same of another model.

    Returns:
        Infinity where shapes differ, or only one of two elements is NaN or infinite.
    """
    peaks: dict[str, float] = {}
    differences: dict[str, float] = {}
    for before, after in zip(expected, found, strict=True):
        for name, array in before.items():
            reference, other = array.astype(np.float64), after[name].astype(np.float64)
            peak = np.max(np.abs(reference), initial=0.0, where=np.isfinite(reference))
            peaks[name] = max(peaks.get(name, 0.0), float(peak))
            differences[name] = max(differences.get(name, 0.0), _distance(reference, other))
    return max((_ratio(differences[name], peaks[name]) for name in peaks), default=0.0)


def _distance(reference: Array, other: Array) -> float:
    """The largest difference of two arrays; the same infinity, as of a masked score, and NaN twice are none."""
    if reference.shape != other.shape:
        return np.inf
    differs = (reference != other) & ~(np.isnan(reference) & np.isnan(other))
    difference = np.max(np.abs(reference[differs] - other[differs]), initial=0.0)
    return float(np.nan_to_num(difference, nan=np.inf, posinf=np.inf))


def _ratio(difference: float, peak: float) -> float:
    return difference / peak if peak else (np.inf if difference else 0.0)


@dataclass(frozen=True, slots=True)
class Calibrated:
    """A float model with the ranges of its tensors.

    Attributes:
        prepared: The model that was run, ready to be quantized.
        ranges: The ranges of the tensors that placement proposes.
        feeds: What was run; None where the ranges come from a file.
        resumed: How many samples an interrupted run had done before.
    """

    prepared: Prepared
    ranges: Ranges
    feeds: Feeds | None = None
    resumed: int = 0
