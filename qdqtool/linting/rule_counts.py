"""Count the findings of each rule."""

from collections import Counter
from dataclasses import dataclass

from qdqtool.linting.findings import Severity
from qdqtool.linting.report import Summary, ValidateReport


@dataclass(frozen=True, slots=True)
class RuleCount:
    """The findings of one rule at one severity, over all models and targets.

    Attributes:
        code: Its code.
        name: Its dotted name.
        severity: The severity.
        count: Number of findings.
        fixable: How many of them have a fix.
    """

    code: str
    name: str
    severity: Severity
    count: int
    fixable: int


@dataclass(frozen=True, slots=True)
class Statistics:
    """The counts of a run, the most frequent rule first.

    Attributes:
        rules: The counts of each rule at each severity.
        summary: The counts over all rules.
    """

    rules: tuple[RuleCount, ...]
    summary: Summary


def statistics(report: ValidateReport) -> Statistics:
    """Count the findings of a report by rule."""
    counts = Counter((each.code, each.name, each.severity) for each in report.findings)
    fixable = Counter((each.code, each.name, each.severity) for each in report.findings if each.fixable)
    rows = (RuleCount(*key, count, fixable[key]) for key, count in counts.items())
    return Statistics(tuple(sorted(rows, key=lambda row: (-row.count, row.code, row.severity))), report.summary)
