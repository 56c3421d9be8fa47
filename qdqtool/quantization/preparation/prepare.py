"""Prepare a float model for quantization; each step is kept only if it is proven to change no output."""

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import partial

from qdqtool.errors import UsageError
from qdqtool.models.graph.io.offload import offloaded
from qdqtool.models.graph.model import Model
from qdqtool.quantization.calibration_report import PreparationReport, Trial
from qdqtool.quantization.planning.options import Preparation
from qdqtool.quantization.preparation.bias_correction import (
    BIAS_CORRECTION,
    Means,
    decode_means,
    encode_means,
    shortened,
)
from qdqtool.quantization.preparation.gate import PreparationGate
from qdqtool.quantization.preparation.step import ProposedChange, StepRequest
from qdqtool.quantization.preparation.steps import asked_steps, known_steps
from qdqtool.quantization.preparation.trial import TrialRunner
from qdqtool.quantization.ranges.method_choice import PLANNED
from qdqtool.quantization.ranges.types import PreparationStep
from qdqtool.quantization.statistics.channel_statistics import ChannelData
from qdqtool.quantization.statistics.float_runs import FloatRuns
from qdqtool.samples.feeds import Feeds


@dataclass(frozen=True, slots=True)
class Prepared:
    """The float model that is calibrated and quantized, and how it differs from the given model.

    Attributes:
        model: The prepared model.
        reports: The outcome of each step, in order.
        record: The steps that were carried out or tried, for a ranges file.
        means: The mean of each channel of the inputs of products, for bias correction; empty if it is not requested.
    """

    model: Model
    reports: tuple[PreparationReport, ...] = ()
    record: tuple[PreparationStep, ...] = ()
    means: Means = field(default_factory=dict)


def prepare(model: Model, feeds: Feeds, runs: FloatRuns, request: StepRequest | None = None) -> Prepared:
    """Carry out the requested steps; a step that changes an output on the data by more than rounding is left out.

    Few samples prove this: a step changes the same weights for every sample, so more samples would show the same. Steps
    that rescale channels are also tried on the quantized model, and left out if its outputs get worse.

    Args:
        model: The float model; it is not changed.
        feeds: The selection samples of the calibration data. For sharded data, these are the samples of all shards, so
            that the steps are the same for every shard.
        runs: Runs the model. Afterwards, its session holds the prepared model.
        request: The requested steps, and the quantization they are for; None for the default steps, without trials.
    """
    request = request or StepRequest(Preparation())
    correct = request.asked.bias_correction
    gate, data = PreparationGate(model, feeds, runs), ChannelData(feeds, runs)
    reports: list[PreparationReport] = []
    record: list[PreparationStep] = []
    runner = None if request.slots is None else TrialRunner(data, request.slots, correct=correct)
    for step in asked_steps(request):
        step_gate = _StepGate(gate.limit, partial(gate.difference, model))
        tried = _first_good(step.changes(model, data, request), step_gate, partial(_run_trial, runner, model))
        change, harmless = tried.change, tried.difference is not None and tried.difference <= gate.limit
        report = _report(step.name, change, applied=harmless, difference=tried.difference)
        reports.append(replace(report, limit=gate.limit, trial=tried.trial))
        if harmless:
            model = change.model
            data.rescale(change.rescaled)
            record.append(PreparationStep(step.name, change.parameters, tried.trial))
        elif tried.trial is not None:
            record.append(PreparationStep(step.name, step.refused_parameters, tried.trial))
    means = shortened(data.means(model)) if correct else {}
    if means:
        record.append(encode_means(means))
    return Prepared(model, tuple(reports), tuple(record), means)


def prepare_as_recorded(model: Model, record: Sequence[PreparationStep], asked: Preparation | None = None) -> Prepared:
    """Repeat the steps of an earlier calibration; nothing is run.

    Args:
        model: The float model; it is not changed.
        record: The steps that were carried out.
        asked: The options of the user, with which the record must agree.

    Raises:
        UsageError: The record does not fit the options or the model, or has an unknown step.
    """
    asked = asked or Preparation()
    _check_agreement({entry.step for entry in record if entry.was_made}, asked)
    known = known_steps()
    means: Means = {}
    reports: list[PreparationReport] = []
    for entry in record:
        if entry.step == BIAS_CORRECTION:
            means = decode_means(entry.parameters) if asked.bias_correction else {}
            continue
        if entry.step in PLANNED:
            continue
        if entry.step not in known:
            raise UsageError(
                f"the ranges were found after step '{entry.step}', which this qdqtool does not know",
                hint="calibrate again, or use the qdqtool that wrote them",
            )
        step = known[entry.step]
        change = step.replay(model, entry.parameters) if entry.was_made else ProposedChange(model=model)
        model = change.model
        report = _report(entry.step, change, applied=bool(change.done), difference=None)
        reports.append(replace(report, trial=entry.trial))
    return Prepared(offloaded(model), tuple(reports), tuple(record), means)


@dataclass(frozen=True, slots=True)
class _Tried:
    """A change, the difference that it makes to the outputs, and its trial; None for values that were not measured."""

    change: ProposedChange
    difference: float | None = None
    trial: Trial | None = None


@dataclass(frozen=True, slots=True)
class _StepGate:
    """The gate for changes of one model: the largest allowed difference, and the function that measures a change."""

    limit: float
    difference: Callable[[ProposedChange], float]


def _first_good(
    changes: Iterator[ProposedChange], gate: _StepGate, run_trial: Callable[[ProposedChange], Trial | None]
) -> _Tried:
    """Return the first change that no trial refuses and that passes the gate."""
    # If there is none, return the first change that a trial refused, else the first that failed the gate. If there is
    # nothing to do, neither the difference nor a trial is measured.
    refused: list[_Tried] = []
    harmful: list[_Tried] = []
    for change in changes:
        if not change.done:
            return [*refused, *harmful, _Tried(change)][0]
        # A change at the same places differs only in the rounding of its factors, and is not tried again.
        if any(change.done == other.change.done for other in refused):
            continue
        # A trial with ``rehearsals`` builds its own models. So weights are rescaled here only after it accepts the
        # change.
        trial = run_trial(change if change.rehearsals else replace(change, model=offloaded(change.model)))
        if trial is not None and not trial.kept:
            refused.append(_Tried(change, trial=trial))
            continue
        candidate = replace(change, model=offloaded(change.model))
        difference = gate.difference(candidate)
        if difference <= gate.limit:
            return _Tried(candidate, difference, trial)
        harmful.append(_Tried(candidate, difference))
    # This is not empty: a step proposes at least one change.
    return [*refused, *harmful][0]


def _run_trial(runner: TrialRunner | None, model: Model, change: ProposedChange) -> Trial | None:
    return runner.run(model, change) if runner is not None and change.on_trial else None


def _check_agreement(made: AbstractSet[str], asked: Preparation) -> None:
    for name, step in known_steps().items():
        problem = step.disagreement(asked, made=name in made)
        if problem:
            raise UsageError(problem, hint="calibrate again with the options that you want")


def _report(step: str, change: ProposedChange, *, applied: bool, difference: float | None) -> PreparationReport:
    return PreparationReport(step=step, applied=applied, sites=change.done, left=change.left, max_difference=difference)
