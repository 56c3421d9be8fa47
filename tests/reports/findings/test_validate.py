"""Validate reports for other tools: their structure, and hostile names in every one of them."""

import html
import importlib.metadata
import json
from email.message import Message
from urllib.parse import unquote
from xml.etree import ElementTree as ET

import pytest
from support import sarif
from support.paths import ROOT

from qdqtool import reports as _report
from qdqtool.jobs.validate import validate_model
from qdqtool.linting import rules
from qdqtool.linting.report import ValidateReport
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


def test_sarif_rules_lead_to_their_pages_where_the_package_has_an_address(
    report: ValidateReport, monkeypatch: pytest.MonkeyPatch
):
    metadata = Message()
    metadata["Version"] = "9.9"
    metadata["Project-URL"] = "Documentation, https://docs.example/qdqtool"
    monkeypatch.setattr(importlib.metadata, "metadata", lambda _: metadata)
    driver = sarif.read(render("sarif", report)).tool.driver

    assert driver.version == "9.9"
    assert driver.rules[0].help_uri == f"https://docs.example/qdqtool/rules/{driver.rules[0].id}.md"


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


def test_text_shows_the_neighbourhood_where_asked(report: ValidateReport, capsys: pytest.CaptureFixture[str]):
    assert "    graph: DequantizeLinear wd -> MatMul y\n" in text_of(report, capsys)


def test_json_of_a_hostile_model_is_json(hostile: ValidateReport):
    assert json.loads(json_report.render(hostile))["summary"]["errors"] == len(hostile.findings)
