"""The verdict of the page: the verdicts of all reports, open questions, and the accuracy of each output."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from qdqtool.accuracy.checking.limits import ACCURACY_GATES
from qdqtool.accuracy.checking.report import CheckReport, GateResult, OutputResult
from qdqtool.accuracy.checking.worst_output import LOW_AGREEMENT, LOW_SQNR
from qdqtool.accuracy.report import OutputAccuracy
from qdqtool.errors import GateError, plural
from qdqtool.jobs import verdict
from qdqtool.jobs.conversion.report import QUESTION, ConversionReport, StepReport
from qdqtool.jobs.quantize_report import QuantizeReport
from qdqtool.linting.report import ValidateReport
from qdqtool.reports.blocks import State
from qdqtool.reports.saved.reading import FailedCommand, SavedReport
from qdqtool.reports.saved.story import Story, bracketed
from qdqtool.results import Judgement, Question, VerdictWord

QUESTIONS: dict[Question, tuple[str, str]] = {
    "rules": ("Is the model valid for its target?", "qdqtool validate"),
    "numbers": ("Are its numbers near those of the float model?", "qdqtool check --baseline"),
    "engine": ("Does the compiler build it?", "qdqtool build"),
}
"""The questions that the page answers, each with the command whose report answers it."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict.

    Attributes:
        overall: ``failed`` if any report failed; ``warning`` if any report warns, or if no report judged anything; else
            ``passed``.
        sentence: The verdict in words.
        judgements: The judgements on which the verdict is based.
    """

    overall: VerdictWord
    sentence: str
    judgements: tuple[Judgement, ...]


def judge(story: Story) -> Verdict:
    """Return the verdict on a model."""
    converted = any(isinstance(each.content, ConversionReport) for each in story.reports)
    reports = [(each.source, each.content) for each in story.reports if not isinstance(each.content, ValidateReport)]
    judged = [
        *verdict.judge([*reports, *_validated(story)], "--check-min-sqnr" if converted else "--min-sqnr"),
        *(judgement for report in story.reports for judgement in _of_command(report)),
    ]
    # Nobody should deploy a model whose numbers were not compared.
    missing = [
        Judgement(
            question, "warning" if question == "numbers" else "skipped", f"no report answers this; {command} does"
        )
        for question, (_, command) in QUESTIONS.items()
        if not any(each.question == question for each in judged)
    ]
    judgements = tuple(sorted([*judged, *missing], key=lambda each: [*QUESTIONS].index(each.question)))
    return Verdict(*_overall(judgements), judgements)


def _validated(story: Story) -> Iterator[tuple[str, object]]:
    """Yield the result of each ``validate`` for the quantized model, with its settings file."""
    for report, model in story.of_this_model():
        if isinstance(report.content, ValidateReport):
            yield report.source, replace(report.content, models=(model,))


def _overall(judgements: Sequence[Judgement]) -> tuple[VerdictWord, str]:
    reasons = verdict.reasons_of(judgements)
    skipped = [each for each in judgements if each.state == "skipped"]
    if reasons:
        count = sum(each.state == reasons[0].state for each in reasons) - 1
        more = f" ({count} more below)" if count else ""
        failed = f"{reasons[0].question} failed: " if reasons[0].state == "failed" else ""
        sentence = f"{failed}{reasons[0].detail}{more}."
        return verdict.word_of(reasons), f"{sentence[:1].upper()}{sentence[1:]}"
    if not any(each.state == "passed" for each in judgements):
        return "warning", "No report judges the model."
    return "passed", f"Every gate held.{f' Not asked for: {_names(skipped)}.' if skipped else ''}"


def _names(judgements: Iterable[Judgement]) -> str:
    return ", ".join(dict.fromkeys(each.question for each in judgements))


def _of_command(report: SavedReport) -> Iterator[Judgement]:
    """Yield judgements on a command that ended without a report, and on the steps of a conversion."""
    match report.content:
        case FailedCommand() as failed:
            has_failed = failed.exit_code == GateError.exit_code or report.listed_in
            question = QUESTION.get(failed.command, "numbers")
            detail = failed.message if report.listed_in else f"{failed.command}: {failed.message}"
            yield Judgement(question, "failed" if has_failed else "warning", detail, failed.hint or "", report.source)
        case ConversionReport() as conversion:
            yield from _of_convert(report.source, conversion)
        case _:
            return


def _of_convert(source: str, conversion: ConversionReport) -> Iterator[Judgement]:
    found = [judgement for step in conversion.steps if (judgement := _of_step(source, step)) is not None]
    yield from found
    if not conversion.passed and not any(each.state == "failed" for each in found):
        question = QUESTION.get(conversion.failed or "", "numbers")
        failed = f"the conversion failed at {conversion.failed or UNKNOWN_STEP}"
        yield Judgement(question, "failed", failed, source=source)


UNKNOWN_STEP = "a step that the report does not name"


def _of_step(source: str, step: StepReport) -> Judgement | None:
    question = QUESTION[step.step]
    if step.state == "failed":
        reason = step.message or ", ".join(step.missed) or "no reason is given"
        return Judgement(question, "failed", f"{step.step}: {reason}", source=source)
    if step.state in {"not reached", "not asked for"}:
        return Judgement(question, "skipped", f"{step.step} was {step.state}", source=source)
    if step.report is None and step.step != "quantize":
        return Judgement(question, "warning", f"{step.step} passed, but its report is missing", source=source)
    return None


@dataclass(frozen=True, slots=True)
class Bar:
    """The accuracy of an output, and the limit.

    Attributes:
        name: The output.
        text: The accuracy in words.
        limit: The limit in words.
        length: The accuracy as a share of the bar.
        mark: The limit as a share of the bar.
        state: Whether the accuracy is within the limit.
    """

    name: str
    text: str
    limit: str
    length: float
    mark: float
    state: State


@dataclass(frozen=True, slots=True)
class Bars:
    """The accuracy of outputs from one report, the worst first; ``others`` counts the outputs that are left out."""

    caption: str
    bars: tuple[Bar, ...]
    others: int


_BARS, _TOP_DB = 6, 60.0
"""How many outputs have bars, and the SQNR of a full bar: about 10 bits."""


def accuracy_bars(story: Story) -> Iterator[Bars]:
    """Yield the outputs of each check on real data; without such a check, the outputs that ``quantize`` measured."""
    checks = [each for each in story.each(CheckReport) if each[1].baseline and each[1].data.seed is None]
    quantize = story.first(QuantizeReport)
    target = quantize.search.min_sqnr_db if quantize is not None and quantize.search is not None else None
    for source, check in checks:
        yield from _bars(
            f"Accuracy of the outputs on {plural(check.data.samples, 'sample')} of {check.data.source}"
            f"{bracketed(source)}",
            check.outputs,
            {gate.name: gate for gate in check.gates if gate.name in ACCURACY_GATES},
            target,
        )
    accuracy = quantize.accuracy if quantize is not None else None
    used = quantize.calibration if quantize is not None else None
    if not checks and accuracy is not None and used is not None and not used.random:
        caption = f"Accuracy of the outputs on {accuracy.samples} {accuracy.part} samples"
        yield from _bars(caption, accuracy.outputs, {}, target)


def _bars(
    caption: str,
    outputs: Sequence[OutputResult | OutputAccuracy],
    gates: Mapping[str, GateResult],
    target: float | None,
) -> Iterator[Bars]:
    bars = sorted((_bar(output, gates, target) for output in outputs), key=lambda bar: bar.length)
    if bars:
        yield Bars(caption, tuple(bars[:_BARS]), len(bars[_BARS:]))


def _bar(output: OutputResult | OutputAccuracy, gates: Mapping[str, GateResult], target: float | None) -> Bar:
    agreement = output.agreement if isinstance(output, OutputResult) else None
    name, unit, least = ("min-sqnr", "dB", LOW_SQNR) if agreement is None else ("min-agreement", "", LOW_AGREEMENT)
    given = gates[name].limit if name in gates else None
    limit = given if given is not None else target if target is not None and agreement is None else least
    words = "limit" if given is not None else "target" if limit is target else "no limit given; warning below"
    value = output.sqnr_db if agreement is None else agreement
    top = 1.0 if agreement is not None else max(_TOP_DB, 1.25 * limit)
    if output.exact:
        value, text_ = top, "equal"
    elif value is None:
        value, text_ = 0.0, "no SQNR: the float output is 0, or NaN"
    else:
        text_ = f"{value:.2f} dB" if agreement is None else f"{value:.2%} equal"
    is_lost = any(output.name in gate.missed_by for gate in gates.values())
    state: State = "failed" if is_lost else "passed" if value >= limit else "warning"
    shown = f"{words} {limit:g} {unit}".rstrip()
    return Bar(output.name, text_, shown, min(max(value / top, 0.0), 1.0), limit / top, state)
