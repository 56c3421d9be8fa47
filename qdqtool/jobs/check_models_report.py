"""The report of the check of several models."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, get_args

from qdqtool.accuracy.checking.report import CheckReport
from qdqtool.errors import plural
from qdqtool.results import Judgement, Report, VerdictWord, exit_code


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCheck:
    """The check of one model.

    Attributes:
        model: Its file.
        verdict: ``failed`` if a gate was missed or the check could not be made, ``warning`` if a user should know
            something before deployment.
        exit_code: The exit code of ``qdqtool check`` for this model alone.
        reasons: Why the verdict is not ``passed``.
        report: The JSON report of ``check``; None if the check could not be made.
    """

    model: str
    verdict: VerdictWord
    exit_code: int
    reasons: tuple[Judgement, ...]
    report: Report | None

    @classmethod
    def of(cls, report: CheckReport, *, strict: bool = False) -> "ModelCheck":
        """Return the report entry of a completed check; with ``strict``, a warning also has exit code 1."""
        code = exit_code(report.verdict, strict=strict)
        return cls(model=report.model, verdict=report.verdict, exit_code=code, reasons=report.reasons, report=report)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChecksReport(Report):
    """The verdicts on several models.

    Attributes:
        settings: The settings file that lists the models.
        verdict: The worst verdict.
        exit_code: The largest exit code.
        models: The check of each model, in the order of the file.
    """

    settings: str
    verdict: VerdictWord
    exit_code: int
    models: tuple[ModelCheck, ...]

    def document(self) -> dict[str, Any]:
        """Return the keys of the JSON report: the report of each model is a document of its own."""
        names = [each.name for each in fields(ModelCheck)]
        models = [
            {name: getattr(model, name) for name in names} | {"report": model.report and model.report.document()}
            for model in self.models
        ]
        return {**Report.document(self), "models": models}


def count_verdicts(words: Sequence[VerdictWord], settings: str) -> str:
    """Return how many models of a settings file have each verdict, in words."""
    counts = (f"{words.count(word)} {word}" for word in get_args(VerdictWord) if word in words)
    return f"{plural(len(words), 'model')} of {settings}: {', '.join(counts)}"
