"""The verdict of the page: what every joined report says of rules, numbers and engine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from qdqtool.accuracy.checking.limits import ON_OUTPUTS
from qdqtool.accuracy.checking.report import CheckReport
from qdqtool.engines.build.report import EngineReport, RefusedReport
from qdqtool.errors import GateError, plural
from qdqtool.jobs.conversion.report import ConversionReport, StepReport
from qdqtool.jobs.quantize_report import QuantizeReport
from qdqtool.linting.report import ModelReport
from qdqtool.reports.blocks import State
from qdqtool.reports.saved.reading import FailedCommand, SavedReport
from qdqtool.reports.saved.story import Story

Question = Literal["rules", "numbers", "engine"]
Overall = Literal["passed", "failed", "unknown"]

QUESTIONS: dict[Question, tuple[str, str]] = {
    "rules": ("Is the model valid for its target?", "qdqtool validate"),
    "numbers": ("Are its numbers near those of the float model?", "qdqtool check --baseline"),
    "engine": ("Does the compiler build it?", "qdqtool build"),
}
"""What the page judges, with the command that answers."""
_STEPS: dict[str, Question] = {"quantize": "numbers", "validate": "rules", "check": "numbers", "build": "engine"}


@dataclass(frozen=True, slots=True)
class Judgement:
    """What one report says of one question.

    Attributes:
        question: The question.
        state: The answer.
        detail: The reason, in one line.
        source: The file that says so; empty where none says anything.
    """

    question: Question
    state: State
    detail: str
    source: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict.

    Attributes:
        overall: ``failed`` where any report says so; ``passed`` where every question is answered, or was left out on
            purpose by ``convert --no-build``; else ``unknown``.
        sentence: The same in words.
        judgements: What it rests on.
    """

    overall: Overall
    sentence: str
    judgements: tuple[Judgement, ...]


def judge(story: Story) -> Verdict:
    """Return the verdict on a model."""
    told = [
        *(judgement for report in story.reports for judgement in _of_report(report)),
        *(judgement for source, model in story.validated() for judgement in _of_validated(source, model)),
    ]
    missing = [
        Judgement(question, "unknown", f"no report says so; {command} does", "")
        for question, (_, command) in QUESTIONS.items()
        if not any(each.question == question for each in told)
    ]
    judgements = tuple(sorted([*told, *missing], key=lambda each: [*QUESTIONS].index(each.question)))
    return Verdict(*_overall(judgements), judgements)


def _overall(judgements: Sequence[Judgement]) -> tuple[Overall, str]:
    failed = [each for each in judgements if each.state == "failed"]
    if failed:
        more = f" ({len(failed) - 1} more below)" if len(failed) > 1 else ""
        return "failed", f"{_names(failed).capitalize()} failed: {failed[0].detail}{more}."
    open_ = [
        question
        for question in QUESTIONS
        if not {"passed", "skipped"} & {each.state for each in judgements if each.question == question}
    ]
    if open_:
        return "unknown", f"No gate failed, but not all is known: {', '.join(open_)}."
    skipped = [each for each in judgements if each.state == "skipped"]
    return "passed", f"Every gate held.{f' Not asked for: {_names(skipped)}.' if skipped else ''}"


def _names(judgements: Iterable[Judgement]) -> str:
    return ", ".join(dict.fromkeys(each.question for each in judgements))


def _of_report(report: SavedReport) -> Iterator[Judgement]:
    match report.content:
        case CheckReport() as check:
            yield _of_check(report.source, check)
        case EngineReport() as build:
            yield _of_build(report.source, build)
        case RefusedReport(stage=stage, message=message):
            yield Judgement("engine", "failed", f"refused in stage '{stage}': {message}", report.source)
        case QuantizeReport() as quantize:
            yield from _of_quantize(report.source, quantize)
        case FailedCommand() as failed:
            state: State = "failed" if failed.exit_code == GateError.exit_code else "unknown"
            question = _STEPS.get(failed.command, "numbers")
            yield Judgement(question, state, f"{failed.command}: {failed.message}", report.source)
        case ConversionReport() as conversion:
            yield from _of_convert(report.source, conversion)
        case _:
            return


def _of_validated(source: str, model: ModelReport) -> Iterator[Judgement]:
    if model.error is not None:
        yield Judgement("rules", "failed", f"the model could not be read: {model.error}", source)
    elif not model.targets:
        yield Judgement("rules", "unknown", "no target was asked about", source)
    for target in model.targets:
        errors = sum(finding.severity == "error" for finding in target.findings)
        failed = errors > 0 or target.verdict == "fail"
        detail = f"{target.target}: {plural(errors, 'error')} of {plural(len(target.checked), 'rule')}"
        accepted = (
            f"; {target.known} known, {target.suppressed} suppressed" if target.known or target.suppressed else ""
        )
        yield Judgement("rules", "failed" if failed else "passed", detail + accepted, source)


def _of_check(source: str, check: CheckReport) -> Judgement:
    missed = [gate.name for gate in check.gates if not gate.passed]
    if missed or check.failures or not check.passed:
        detail = "; ".join(check.failures) or f"missed: {', '.join(missed) or 'unknown gate'}"
        return Judgement("numbers", "failed", detail, source)
    held = f"{plural(len(check.gates), 'gate')} held on {plural(check.data.samples, 'sample')}"
    if check.baseline is None:
        return Judgement("numbers", "unknown", f"{held}; not compared with a float model", source)
    if check.data.seed is not None:
        return Judgement("numbers", "unknown", f"{held}; random inputs say nothing about real ones", source)
    compared = f"{held}, against {check.baseline}"
    if _is_limited(check):
        return Judgement("numbers", "passed", compared, source)
    # The gates that are always active let 0 dB pass: what is near enough, only the user knows.
    return Judgement("numbers", "unknown", f"{compared}; no limit on the accuracy was given", source)


def _is_limited(check: CheckReport) -> bool:
    """Return whether a limit holds for every output that is not exact; one on agreement is none for float outputs."""
    limits = ON_OUTPUTS & {gate.name for gate in check.gates}
    differing = [output for output in check.outputs if not output.exact]
    if limits == {"min-agreement"}:
        return all(output.agreement is not None for output in differing)
    return bool(limits) or (bool(check.outputs) and not differing)


def _of_build(source: str, build: EngineReport) -> Judgement:
    missed = [f"{gate.gate}: {gate.found}" for gate in build.gates if not gate.passed]
    if missed or not build.passed:
        return Judgement("engine", "failed", "; ".join(missed) or "a gate was missed", source)
    built = f"{build.backend} {build.version} built it"
    if build.evidence == "none":
        return Judgement("engine", "unknown", f"{built}; it does not show the actual precision", source)
    planned = sum(build.planned.values())
    achieved = sum(min(build.achieved.get(kind, 0), count) for kind, count in build.planned.items())
    return Judgement(
        "engine", "passed", f"{built}; {achieved} of {planned} planned nodes have the planned precision", source
    )


def _of_quantize(source: str, quantize: QuantizeReport) -> Iterator[Judgement]:
    errors = [finding.message for finding in quantize.findings if finding.severity == "error"]
    if errors:
        yield Judgement("rules", "failed", "; ".join(errors), source)
    outputs = quantize.accuracy.outputs if quantize.accuracy is not None else ()
    broken = [output.name for output in outputs if not output.finite]
    if broken:
        yield Judgement("numbers", "failed", f"NaN or infinities in {', '.join(broken)}", source)


def _of_convert(source: str, conversion: ConversionReport) -> Iterator[Judgement]:
    found = [judgement for step in conversion.steps if (judgement := _of_step(source, step)) is not None]
    yield from found
    if not conversion.passed and not any(each.state == "failed" for each in found):
        question = _STEPS.get(conversion.failed or "", "numbers")
        yield Judgement(question, "failed", f"the conversion failed at {conversion.failed or UNKNOWN_STEP}", source)


UNKNOWN_STEP = "a step that the report does not name"


def _of_step(source: str, step: StepReport) -> Judgement | None:
    question = _STEPS[step.step]
    if step.state == "failed":
        reason = step.message or ", ".join(step.missed) or "no reason is given"
        return Judgement(question, "failed", f"{step.step}: {reason}", source)
    if step.state in {"not reached", "not asked for"}:
        state: State = "unknown" if step.state == "not reached" else "skipped"
        return Judgement(question, state, f"{step.step} was {step.state}", source)
    if step.report is None and step.step != "quantize":
        return Judgement(question, "unknown", f"{step.step} passed, and its report is missing", source)
    return None
