"""The report of ``validate``: findings by model and target, and their counts."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from qdqtool.findings import SEVERITIES, Finding, Severity
from qdqtool.linting.parser_word import ParserStatus

Verdict = Literal["pass", "fail"]


@dataclass(frozen=True, slots=True)
class TargetReport:
    """The findings for one target.

    Attributes:
        target: Its id.
        verdict: ``fail`` when a finding is an error.
        findings: Errors first, then in the order of the rules and of the nodes.
        checked: Codes of the rules that were applied.
        suppressed: Number of findings that the model's notes and the settings suppress; not among ``findings``.
        known: Number of findings that the baseline holds; not among ``findings``.
        parser: Whether TensorRT's parser was asked too: ``asked``, ``absent``, ``off`` or ``timed out``; None for
            targets that have none. What it has against the model is among ``findings``, as QE701.
        parser_note: The version that was asked, or why it was not.
        parser_messages: Its own words.
    """

    target: str
    verdict: Verdict
    findings: tuple[Finding, ...]
    checked: tuple[str, ...] = ()
    suppressed: int = 0
    known: int = 0
    parser: ParserStatus | None = None
    parser_note: str = ""
    parser_messages: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelReport:
    """The findings in one model.

    Attributes:
        path: Its file; ``<memory>`` for a model without a file.
        targets: One report for each target; empty for a model that cannot be read.
        error: Why it cannot be read; None where it can.
    """

    path: str
    targets: tuple[TargetReport, ...]
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Summary:
    """The numbers of findings over all models and targets.

    Attributes:
        errors: Findings of severity error.
        warnings: Findings of severity warning.
        infos: Findings of severity info.
        suppressed: Findings that notes in the models and settings suppress; not counted above.
        known: Findings in the baseline; not counted above.
    """

    errors: int = 0
    warnings: int = 0
    infos: int = 0
    suppressed: int = 0
    known: int = 0


@dataclass(frozen=True, slots=True)
class ValidateReport:
    """The findings of a run.

    Attributes:
        models: One report for each model, in the order asked for.
        summary: The counts.
    """

    models: tuple[ModelReport, ...]
    summary: Summary

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings of all models and targets."""
        return tuple(finding for model in self.models for target in model.targets for finding in target.findings)

    @property
    def unreadable(self) -> tuple[ModelReport, ...]:
        """The models that could not be read."""
        return tuple(model for model in self.models if model.error is not None)

    def reaches(self, severity: Severity) -> bool:
        """Whether there is a finding of ``severity`` or worse."""
        worst = SEVERITIES[: SEVERITIES.index(severity) + 1]
        return any(finding.severity in worst for finding in self.findings)


def target_report(
    target: str, findings: Iterable[Finding], *, checked: tuple[str, ...], suppressed: int = 0, known: int = 0
) -> TargetReport:
    """Make the report of one target: findings sorted by severity, and the verdict."""
    found = tuple(sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity)))
    verdict: Verdict = "fail" if any(finding.severity == "error" for finding in found) else "pass"
    return TargetReport(target, verdict, found, checked, suppressed, known)


def validate_report(models: Iterable[ModelReport]) -> ValidateReport:
    """Make the report of a run, with the counts."""
    models = tuple(models)
    reports = [target for model in models for target in model.targets]
    counts = Counter(finding.severity for report in reports for finding in report.findings)
    suppressed, known = sum(each.suppressed for each in reports), sum(each.known for each in reports)
    return ValidateReport(models, Summary(counts["error"], counts["warning"], counts["info"], suppressed, known))
