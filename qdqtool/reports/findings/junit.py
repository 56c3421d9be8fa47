"""JUnit XML: each model is a test suite; each applied rule and target, or each gate of ``check``, is a test case."""

from collections.abc import Iterable
from xml.etree import ElementTree as ET

from qdqtool.errors import escape, plural
from qdqtool.jobs.catalogue import catalogue
from qdqtool.linting.findings import Finding
from qdqtool.linting.report import ModelReport, TargetReport, ValidateReport
from qdqtool.reports.finding_words import command_of, fix_of, repository_path, sentence


def render(report: ValidateReport) -> str:
    """Return the document. Errors fail their test case; warnings and infos become its output."""
    names = {card.code: card.name for card in catalogue().rules}
    root = ET.Element("testsuites", name=f"qdqtool {command_of(report)}")
    for model in report.models:
        root.append(_suite(model, names))
    for count in ("tests", "failures", "errors", "skipped"):
        root.set(count, str(sum(int(suite.get(count, "0")) for suite in root)))
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode")


def _suite(model: ModelReport, names: dict[str, str]) -> ET.Element:
    path = escape(repository_path(model.path))
    suite = ET.Element("testsuite", name=path)
    cases = [case for target in model.targets for case in _cases(path, target, names)]
    if model.error is not None:
        case = ET.Element("testcase", classname=path, name="readable", file=path)
        ET.SubElement(case, "error", message=escape(model.error), type="unreadable")
        cases.append(case)
    suite.extend(cases)
    suite.set("tests", str(len(cases)))
    for counted, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(counted, str(sum(case.find(tag) is not None for case in cases)))
    return suite


def _cases(path: str, target: TargetReport, names: dict[str, str]) -> Iterable[ET.Element]:
    by_rule: dict[str, list[Finding]] = {code: [] for code in target.checked}
    for finding in target.findings:
        by_rule.setdefault(finding.code, []).append(finding)
    for code, findings in by_rule.items():
        name = f"{code} {names[code]}" if code in names else code
        case = ET.Element("testcase", classname=f"{path}.{target.target}", name=name, file=path)
        errors = [finding for finding in findings if finding.severity == "error"]
        rest = [finding for finding in findings if finding.severity != "error"]
        if errors:
            failure = ET.SubElement(case, "failure", message=sentence(errors[0]), type=errors[0].effect)
            failure.text = _body(errors)
        if rest:
            ET.SubElement(case, "system-out").text = _body(rest)
        yield case
    for ignored in target.ignored:
        name = f"{ignored.code} {names[ignored.code]}"
        case = ET.Element("testcase", classname=f"{path}.{target.target}", name=name, file=path)
        ET.SubElement(case, "skipped", message=f"ignored; {plural(ignored.count, 'finding')}")
        yield case


def _body(findings: list[Finding]) -> str:
    lines = [f"{each.severity} [{each.effect}] {sentence(each)}" for each in findings]
    return "\n".join(lines) + fix_of(findings[0])
