"""The verdict of the page: the verdicts of all reports, and the questions that no report answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from qdqtool.errors import GateError
from qdqtool.jobs import verdict
from qdqtool.jobs.conversion.report import QUESTION, ConversionReport, StepReport
from qdqtool.linting.report import ValidateReport
from qdqtool.reports.saved.reading import FailedCommand, SavedReport
from qdqtool.reports.saved.story import Story
from qdqtool.results import Judgement, Question, VerdictWord

QUESTIONS: dict[Question, tuple[str, str]] = {
    "rules": ("Is the model valid for its target?", "qdqtool validate"),
    "numbers": ("Are its numbers near those of the float model?", "qdqtool check --baseline"),
    "engine": ("Does the compiler build it?", "qdqtool build"),
}
"""The questions of the page, with the command that answers each."""


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
        *verdict.judge([*reports, *story.validated()], "--check-min-sqnr" if converted else "--min-sqnr"),
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
    """Yield the judgement of a command that ended without a report, and those of the steps of a conversion."""
    match report.content:
        case FailedCommand() as failed:
            state: VerdictWord = "failed" if failed.exit_code == GateError.exit_code else "warning"
            question = QUESTION.get(failed.command, "numbers")
            yield Judgement(question, state, f"{failed.command}: {failed.message}", source=report.source)
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
        return Judgement(question, "warning", f"{step.step} passed, and its report is missing", source=source)
    return None
