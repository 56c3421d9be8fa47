"""SARIF 2.1.0, the format of code scanning services."""

import importlib.metadata
import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from qdqtool.errors import escape
from qdqtool.jobs.catalogue import RuleCard, catalogue
from qdqtool.linting.findings import Finding
from qdqtool.linting.report import ModelReport, ValidateReport
from qdqtool.reports.finding_words import (
    CHECK,
    command_of,
    file_uri,
    from_repository,
    place,
    repository_path,
    sentence,
    worst_first,
)

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"

_ADDRESS = re.compile(r"https?://[A-Za-z0-9._~:/?#@!$&'()*+,;=%-]+")
_LEVELS = {"error": "error", "warning": "warning", "info": "note"}


def render(report: ValidateReport) -> str:
    """Return the document: one run with every rule and every finding, errors first since services cut long lists.

    Services recognize a finding in the next run by ``partialFingerprints``. They cannot derive fingerprints from source
    lines, because the file is binary.
    """
    version, pages = _package()
    found = [_rule(card, pages) for card in catalogue().rules] if command_of(report) != CHECK else [*_gates(report)]
    index = {rule["id"]: number for number, rule in enumerate(found)}
    seen: Counter[tuple[str, str, str]] = Counter()
    results = [_result(model, target.target, finding, index, seen) for model, target, finding in worst_first(report)]
    run = {
        "tool": {"driver": {"name": "qdqtool", "version": version, "rules": found}},
        "invocations": [_invocation(report)],
        "columnKind": "utf16CodeUnits",
        "results": results,
        "properties": _left_out(report),
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)


def _left_out(report: ValidateReport) -> dict[str, Any]:
    """Return facts that are not findings: ignored rules with the number of their findings, and models without Q/DQ."""
    return {
        "ignored": report.ignored,
        "settings": escape(report.settings) if report.settings is not None else None,
        "withoutQdq": [repository_path(model.path) for model in report.models if model.qdq_nodes == 0],
    }


def _package() -> tuple[str, str | None]:
    """Return the installed version, and the address of the documentation if the package metadata has one."""
    # A wrong help address is worse than none: every rule has its explanation in the document.
    found = importlib.metadata.metadata("qdqtool")
    urls = dict(entry.split(", ", 1) for entry in found.get_all("Project-URL") or () if ", " in entry)
    pages = urls.get("Documentation")
    return found["Version"], pages if pages is not None and _ADDRESS.fullmatch(pages) else None


def _rule(card: RuleCard, pages: str | None) -> dict[str, Any]:
    worst = min(card.impacts, key=lambda impact: list(_LEVELS).index(impact.severity))
    markdown = (
        f"**Why it matters.** {card.why}\n\n**Bad.** {card.bad}\n\n**Good.** {card.good}\n\n**Fix.** {card.remedy}"
    )
    rule = {
        "id": card.code,
        "name": card.name,
        "shortDescription": {"text": card.summary},
        "fullDescription": {"text": card.why},
        "help": {"text": f"{card.why} Fix: {card.remedy}.", "markdown": markdown},
        "defaultConfiguration": {"level": _LEVELS[worst.severity]},
        "properties": {"tags": sorted({"onnx", "quantization", *(impact.target for impact in card.impacts)})},
    }
    return rule if pages is None else {**rule, "helpUri": f"{pages.rstrip('/')}/rules/{card.code}.md"}


def _gates(report: ValidateReport) -> Iterator[dict[str, Any]]:
    """Yield the gates of checks as rules."""
    for code in dict.fromkeys(code for model in report.models for target in model.targets for code in target.checked):
        text = {"text": "A verdict without a gate." if code == CHECK else f"The gate '{code}' of checks."}
        yield {
            "id": code,
            "name": code,
            "shortDescription": text,
            "fullDescription": text,
            "help": text,
            "defaultConfiguration": {"level": "warning" if code == CHECK else "error"},
            "properties": {"tags": ["accuracy", "onnx", "quantization"]},
        }


def _result(
    model: ModelReport, target: str, finding: Finding, index: dict[str, int], seen: Counter[tuple[str, str, str]]
) -> dict[str, Any]:
    key = (model.path, target, finding.fingerprint)
    seen[key] += 1
    extent = _extent(finding)
    return {
        "ruleId": finding.code,
        "ruleIndex": index[finding.code],
        "level": _LEVELS[finding.severity],
        "message": {"text": f"{sentence(finding)} ({target}: {finding.effect})"},
        "locations": [_location(model.path, finding)],
        "partialFingerprints": {
            "primaryLocationLineHash": f"{finding.fingerprint}{extent}{target}:{seen[key]}",
            "qdqtool/names/v1": finding.fingerprint,
            "qdqtool/structure/v1": finding.structure,
        },
        "properties": {"target": target, "effect": finding.effect},
    }


def _extent(finding: Finding) -> str:
    """Return how bad a finding is, as an exponent of two."""
    # Services compare fingerprints for equality. A finding that got twice as bad is a new result for them, so that the
    # dismissal of the old one does not hide it.
    if finding.extent is None:
        return ""
    _, power = math.frexp(finding.extent.degree)
    return f".{finding.extent.count.bit_length()}.{power}."


def _location(path: str, finding: Finding) -> dict[str, Any]:
    location: dict[str, Any] = {"physicalLocation": _physical(path)}
    if finding.node is not None:
        name = {"name": escape(finding.node), "fullyQualifiedName": place(finding), "kind": "element"}
        location["logicalLocations"] = [name]
    return location


def _physical(path: str) -> dict[str, Any]:
    shown = from_repository(path)
    base = {} if shown.is_absolute() else {"uriBaseId": "%SRCROOT%"}
    return {"artifactLocation": {"uri": file_uri(shown), **base}, "region": {"startLine": 1}}


def _invocation(report: ValidateReport) -> dict[str, Any]:
    notes = [
        {
            "level": "error",
            "message": {"text": escape(model.error or "")},
            "locations": [{"physicalLocation": _physical(model.path)}],
        }
        for model in report.unreadable
    ]
    return {"executionSuccessful": not notes, "toolExecutionNotifications": notes}
