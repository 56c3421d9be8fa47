"""Validate reports for other tools: what each format says, and hostile names in every one of them."""

import html
import importlib.metadata
import json
import re
from dataclasses import replace
from urllib.parse import unquote
from xml.etree import ElementTree as ET

import pytest
from support import sarif
from support.paths import ROOT

from qdqtool import reports as _report
from qdqtool.jobs.validate import validate_model
from qdqtool.linting import rules
from qdqtool.linting.report import ValidateReport, with_findings
from qdqtool.linting.rules import Example
from qdqtool.models.graph.model import Model
from qdqtool.registry import load_unit, unit_names
from qdqtool.reports import findings as formats
from qdqtool.reports import json as json_report
from qdqtool.reports.terminal import make_console
from qdqtool.reports.text import findings


def render(name: str, report: ValidateReport) -> str:
    return load_unit(formats, name).render(report)


def test_every_format_is_found_and_documented():
    page = (ROOT / "docs" / "how-to" / "validate.md").read_text(encoding="utf-8")
    assert unit_names(formats) == ("concise", "github", "junit", "markdown", "sarif")
    assert all(f"`{name}`" in page for name in unit_names(formats))
    assert _report.__path__


def test_sarif_keeps_the_standard(report: ValidateReport):
    run = sarif.read(render("sarif", report))
    assert [rule.id for rule in run.tool.driver.rules] == [rule.code for rule in rules.catalogue()]
    assert run.tool.driver.version == importlib.metadata.version("qdqtool")
    assert not run.invocations[0].execution_successful
    assert "no such file" in run.invocations[0].tool_execution_notifications[0].message.text


def test_sarif_locates_findings_from_the_root_of_the_repository(report: ValidateReport):
    run = sarif.read(render("sarif", report))
    places = [result.locations[0].physical_location.artifact_location for result in run.results]
    assert {unquote(place.uri) for place in places} >= {"models/bad.onnx", "models/warn ä.onnx"}
    assert all(place.uri_base_id == "%SRCROOT%" and place.uri.isascii() and " " not in place.uri for place in places)
    assert run.results[0].locations[0].logical_locations[0].fully_qualified_name == "DequantizeLinear -> wd"


def test_sarif_lists_errors_first(report: ValidateReport):
    levels = [result.level for result in sarif.read(render("sarif", report)).results]
    assert levels == sorted(levels, key=["error", "warning", "note"].index)
    assert len(set(levels)) > 1


def test_sarif_fingerprints_are_unique_and_survive_another_run(report: ValidateReport):
    first, second = (sarif.read(render("sarif", report)) for _ in range(2))
    hashes = [result.partial_fingerprints["primaryLocationLineHash"] for result in first.results]
    places = [result.locations[0].physical_location.artifact_location.uri for result in first.results]
    assert len(set(zip(places, hashes, strict=True))) == len(hashes)
    assert [result.partial_fingerprints for result in second.results] == [
        result.partial_fingerprints for result in first.results
    ]


def test_sarif_fingerprints_change_when_a_finding_gets_twice_as_bad():
    def printed(read: float) -> str:
        text = rules.get("QP106").INVALID[0].text.replace("t = {0.2}", f"t = {{{read}}}")
        model = Model(Example("", text).model())
        (result,) = sarif.read(render("sarif", validate_model(model, select=["QP106"]))).results
        return result.partial_fingerprints["primaryLocationLineHash"]

    assert printed(0.2) == printed(0.25)
    assert printed(0.2) != printed(25.6)


def test_reports_have_a_hint(report: ValidateReport):
    remedy = rules.get("QP101").remedy
    annotation = next(line for line in render("github", report).splitlines() if "title=QP101" in line)
    failure = ET.fromstring(render("junit", report)).find(".//failure")
    listed = [html.unescape(line) for line in render("markdown", report).splitlines() if line.startswith("- ")]

    assert annotation.endswith(f"%0Afix: {remedy}")
    assert failure is not None
    assert (failure.text or "").splitlines()[-1] == f"fix: {remedy}"
    assert f"- QP101: {remedy}" in listed
    assert len(listed) == len({finding.code for finding in report.findings})


def text_of(report: ValidateReport, capsys: pytest.CaptureFixture[str]) -> str:
    findings.render(report, make_console(), show_context=True)
    return capsys.readouterr().out


@pytest.mark.parametrize("name", ["text", "json", *unit_names(formats)])
def test_hostile_names_are_escaped(name: str, hostile: ValidateReport, capsys: pytest.CaptureFixture[str]):
    assert hostile.findings
    if name == "text":
        text = text_of(hostile, capsys)
    else:
        text = json_report.render(hostile) if name == "json" else render(name, hostile)
    assert not {"\x1b", "\x00", "\r"} & set(text)
    if name != "json":  # whose reader gets the names as they are
        assert not {"\u202e", "\ufffe"} & set(text)


def test_hostile_names_are_data_in_sarif(hostile: ValidateReport):
    run = sarif.read(render("sarif", hostile))
    assert len(run.results) == len(hostile.findings)
    assert all(result.locations[0].logical_locations[0].name.isprintable() for result in run.results)


def test_json_of_a_hostile_model_is_json(hostile: ValidateReport):
    assert json.loads(json_report.render(hostile))["summary"]["errors"] == len(hostile.findings)


def test_concise_has_one_line_for_each_finding(report: ValidateReport):
    lines = render("concise", report).splitlines()
    assert len(lines) == len(report.findings) + 2
    assert any(line.startswith("bad.onnx: tensorrt: QP101 error [refused] DequantizeLinear -> wd: ") for line in lines)


def test_github_annotations(report: ValidateReport):
    lines = render("github", report).splitlines()
    assert lines[0] == "::error file=models/none.onnx,line=1,title=unreadable::none.onnx: no such file"
    assert lines[1].startswith(
        "::error file=models/bad.onnx,line=1,title=QP101 parameters.scale-value::DequantizeLinear -> wd: scale 'ws'"
    )
    assert any(line.startswith("::warning file=models/warn ä.onnx") for line in lines)
    assert lines[-1].startswith("4 models for 2 targets, ")


def test_hostile_names_start_no_github_command(hostile: ValidateReport):
    *commands, _ = render("github", hostile).splitlines()

    assert len(commands) == len(hostile.findings)
    for line in commands:
        head, _, message = line[2:].partition("::")
        values = dict(part.split("=", 1) for part in head.split(" ", 1)[1].split(","))
        assert set(values) == {"file", "line", "title"}
        assert "%25" in values["file"]
        assert ":" not in values["file"]
        assert "%" not in re.sub("%(25|0D|0A|3A|2C)", "", message)


def test_junit_has_a_suite_for_each_model_and_a_case_for_each_rule(report: ValidateReport):
    root = ET.fromstring(render("junit", report))
    suites = {suite.get("name"): suite for suite in root}
    bad = suites["models/bad.onnx"]
    failed = [case.get("name") for case in bad if case.find("failure") is not None]
    checked = [code for target in report.models[1].targets for code in target.checked]

    assert list(suites) == ["models/warn ä.onnx", "models/bad.onnx", "models/good.onnx", "models/none.onnx"]
    assert [case.get("name", "").split()[0] for case in bad] == checked
    assert len(checked) > 50
    assert failed == ["QP101 parameters.scale-value"] * 2
    assert "ws" in bad.find(".//failure").text
    assert suites["models/none.onnx"].find(".//error").get("type") == "unreadable"
    assert suites["models/warn ä.onnx"].find(".//failure") is None
    assert "QL302" in suites["models/warn ä.onnx"].find(".//system-out/..").get("name")
    for suite in root:
        assert int(suite.get("tests")) == len(suite)
    assert int(root.get("failures")) == len(root.findall(".//failure"))


def test_markdown_starts_with_the_causes_that_repeat(report: ValidateReport):
    model = next(each for each in report.models if each.targets and each.targets[0].findings)
    finding = replace(model.targets[0].findings[0], cause="asymmetric activations")
    target = with_findings(model.targets[0], [finding] * 11)
    text = html.unescape(render("markdown", replace(report, models=(replace(model, targets=(target,)),))))

    assert "11 of 11 findings repeat 1 cause:" in text
    assert text.index("- 11 x asymmetric activations: ") < text.index("- shortest way: ") < text.index("| code |")
    assert "shortest way" not in render("markdown", report)


def test_hostile_names_stay_in_their_xml_elements(hostile: ValidateReport):
    root = ET.fromstring(render("junit", hostile))
    assert {element.tag for element in root.iter()} == {"testsuites", "testsuite", "testcase", "failure"}


def test_markdown_has_verdicts_and_findings(report: ValidateReport):
    lines = render("markdown", report).splitlines()
    assert any(line.startswith("| bad.onnx | tensorrt | fail | 1 | 0 | ") for line in lines)
    assert any(line.startswith("| good.onnx | tensorrt | pass | 0 | 0 | ") for line in lines)
    assert any(line.startswith("| QP101 | error | refused | bad.onnx | tensorrt |") for line in lines)


def test_hostile_names_stay_in_their_markdown_cells(hostile: ValidateReport):
    rows = [line for line in render("markdown", hostile).splitlines() if line.startswith("| QP101")]
    assert len(rows) == len(hostile.findings)
    for row in rows:
        cells = row.strip("| ").split(" | ")
        assert len(cells) == 7
        assert not set("<>`[]*@") & set("".join(cells))
        assert "[bold]" in html.unescape(cells[5])
