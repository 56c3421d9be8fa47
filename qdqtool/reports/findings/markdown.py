"""A summary in Markdown, for example for the summary page of a CI job."""

import re

from qdqtool.errors import escape
from qdqtool.linting import rules
from qdqtool.linting.findings import Finding
from qdqtool.linting.report import ModelReport, TargetReport, ValidateReport
from qdqtool.reports.finding_words import CheckedModel, command_of, counts, diagnosis, fix_of, place, worst_first

SHOWN = 200
"""Largest number of findings in the table; the summary page of a CI job holds 1 MiB."""

_SPECIAL = re.compile(r"([\\`*_{}\[\]()<>#+!|~&@$-])")


def render(report: ValidateReport) -> str:
    """Return verdicts by model and target, then the findings, errors first, and the fix for each rule."""
    lines = [
        f"## qdqtool {command_of(report)}",
        "",
        counts(report),
        "",
        "| model | target | verdict | errors | warnings | infos |",
    ]
    lines.append("|---|---|---|---|---|---|")
    for model in report.models:
        lines += _verdicts(model)
    for model in report.models:
        lines += [line for target in model.targets if target.causes for line in _diagnosis(model, target)]
    found = list(worst_first(report))
    if found:
        lines += ["", "| code | severity | effect | model | target | node | finding |", "|---|---|---|---|---|---|---|"]
        lines += [_row(finding, model.path, target.target) for model, target, finding in found[:SHOWN]]
    if len(found) > SHOWN:
        lines += ["", f"... and {len(found) - SHOWN} more"]
    codes = dict.fromkeys(finding.code for _, _, finding in found if fix_of(finding))
    if codes:
        lines += ["", "What to do (`qdqtool explain CODE` explains a rule):", ""]
        lines += [f"- {code}: {_text(rules.get(code).remedy)}" for code in codes]
    return "\n".join(lines)


def _verdicts(model: ModelReport) -> list[str]:
    path = _text(model.path)
    if model.error is not None:
        return [f"| {path} | | unreadable: {_text(model.error)} | | | |"]
    rows = []
    for target in model.targets:
        severities = [finding.severity for finding in target.findings]
        numbers = " | ".join(str(severities.count(severity)) for severity in ("error", "warning", "info"))
        worst = f": {_text(model.worst)}" if isinstance(model, CheckedModel) and model.worst else ""
        rows.append(f"| {path} | {target.target} | {target.verdict}{worst} | {numbers} |")
    return rows


def _diagnosis(model: ModelReport, target: TargetReport) -> list[str]:
    first, *others = diagnosis(model, target)
    return [
        "",
        f"{_text(model.path)} for {target.target}: {first}",
        "",
        *(f"- {_literal(each.strip())}" for each in others),
    ]


def _row(finding: Finding, path: str, target: str) -> str:
    expected = f"; expected {finding.expected}" if finding.expected is not None else ""
    cells = (_text(path), target, _literal(place(finding)), _text(f"{finding.message}{expected}"))
    return f"| {finding.code} | {finding.severity} | {finding.effect} | {' | '.join(cells)} |"


def _text(raw: str) -> str:
    return _literal(escape(raw))


def _literal(text: str) -> str:
    """Return text that Markdown shows unchanged: characters with a meaning become character references."""
    return _SPECIAL.sub(lambda match: f"&#{ord(match[1])};", text)
