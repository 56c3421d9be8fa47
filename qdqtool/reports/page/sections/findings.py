"""The findings of ``validate`` and ``quantize``, with the texts of their rules."""

from collections.abc import Iterator

from qdqtool.jobs.catalogue import RuleCard, catalogue
from qdqtool.jobs.quantize_report import QuantizeReport
from qdqtool.linting.findings import SEVERITIES, Finding, Severity
from qdqtool.reports.blocks import Block, Cell, Column, Columns, Facts, Lines, State, scoped, tabulate, text
from qdqtool.reports.page.section import Section
from qdqtool.reports.saved.story import Story

_STATES: dict[str, State] = {"error": "failed", "warning": "warning"}
COLUMNS: Columns[tuple[str, Finding]] = {
    Column("Rule"): lambda row: text(f"{row[1].code} {row[1].name}"),
    Column("Severity"): lambda row: _severity(row[1].severity),
    Column("Effect"): lambda row: text(row[1].effect),
    Column("Target"): lambda row: text(row[0]),
    Column("Node"): lambda row: text("the model" if row[1].node is None else scoped(row[1].node, row[1].graph)),
    Column("Finding", prose=True): lambda row: text(row[1].message),
}


def blocks(story: Story) -> tuple[Block, ...]:
    """Return the findings, errors first, and the text of each rule with findings."""
    # The order of a set differs from process to process, and with it the order of findings of one rule.
    found = sorted(
        dict.fromkeys(findings_of(story)), key=lambda each: (SEVERITIES.index(each[1].severity), each[1].code, each[0])
    )
    if not found:
        judged = any(True for _ in story.validated()) or story.first(QuantizeReport) is not None
        return (Lines("Findings", ("No rule found anything.",)),) if judged else ()
    table = tabulate("Findings, errors first", COLUMNS, found)
    known = {rule.code: rule for rule in catalogue().rules}
    codes = sorted({finding.code for _, finding in found})
    texts = tuple((code, _rule_text(known.get(code))) for code in codes)
    return table, Facts(texts)


def findings_of(story: Story) -> Iterator[tuple[str, Finding]]:
    """Yield each finding with its target; a finding that is in two reports is yielded twice."""
    for _, model in story.validated():
        for target in model.targets:
            yield from ((target.target, finding) for finding in target.findings)
    quantize = story.first(QuantizeReport)
    if quantize is not None:
        yield from ((quantize.target, finding) for finding in quantize.findings)


def _severity(severity: Severity) -> Cell:
    return Cell(severity, str(SEVERITIES.index(severity)), _STATES.get(severity))


def _rule_text(rule: RuleCard | None) -> Cell:
    if rule is None:
        return Cell("this version of qdqtool does not know the rule", None, "unknown")
    return text(f"{rule.summary} {rule.remedy}")


SECTION = Section(90, "Findings", ("validate", "quantize"), blocks)
