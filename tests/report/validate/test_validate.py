"""Validate reports for other tools: their structure, and hostile names in every one of them."""

import html
import importlib.metadata
import json
import re
from email.message import Message
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree as ET

import onnx
import pytest
from support import sarif
from support.paths import ROOT
from support.renamed import renamed, reordered

from qdqtool import report as _report
from qdqtool import rules
from qdqtool.jobs.validate import validate_files
from qdqtool.linting.policy import Policy
from qdqtool.linting.report import ValidateReport
from qdqtool.registry import load_unit, unit_names
from qdqtool.report import json as json_report
from qdqtool.report import validate as formats
from qdqtool.report.terminal import make_console
from qdqtool.report.text import findings

HOSTILE = "\x1b[31m[bold]n\nm\u202e\x00\ufffe::set-output,%0A|<b>`x`@you[/bold]\r::error::no"
TARGETS = ("tensorrt", "ort-cpu")


def render(name: str, report: ValidateReport) -> str:
    return load_unit(formats, name).render(report)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with models, and the working directory in a folder of it."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "models").mkdir()
    monkeypatch.chdir(tmp_path / "models")
    return tmp_path / "models"


def saved(folder: Path, name: str, code: str) -> Path:
    onnx.save(rules.get(code).INVALID[0].model(), folder / name)
    return Path(name)


@pytest.fixture
def report(folder: Path) -> ValidateReport:
    """An error, a warning, a clean model and an unreadable one."""
    onnx.save(rules.get("QP101").VALID[0].model(), folder / "good.onnx")
    paths = [
        saved(folder, "warn ä.onnx", "QL302"),
        saved(folder, "bad.onnx", "QP101"),
        Path("good.onnx"),
        Path("none.onnx"),
    ]
    return validate_files(paths, Policy(targets=TARGETS))


@pytest.fixture
def hostile(folder: Path) -> ValidateReport:
    """Every name of the model is hostile, and so is that of the file, as far as file systems allow."""
    model = rules.get("QP101").INVALID[0].model()
    for tensor in model.graph.initializer:
        tensor.name += HOSTILE
    for node in model.graph.node:
        node.name = HOSTILE + node.output[0]
        node.input[:] = [f"{name}{HOSTILE}" if name in {"ws", "w", "s", "z", "wz"} else name for name in node.input]
    name = "%0A::error::,x|[bold]\x1b[31m<b>.onnx"
    onnx.save(model, folder / "plain.onnx")
    (folder / "plain.onnx").rename(folder / name.replace("/", ""))
    return validate_files([Path(name)], Policy(targets=TARGETS, select=("QP101",)))


def test_every_format_is_found_and_documented():
    page = (ROOT / "docs" / "validate.md").read_text(encoding="utf-8")

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


def test_junit_has_a_suite_for_each_model_and_a_case_for_each_rule(report: ValidateReport):
    root = ET.fromstring(render("junit", report))
    suites = {suite.get("name"): suite for suite in root}
    bad = suites["models/bad.onnx"]
    failed = [case.get("name") for case in bad if case.find("failure") is not None]
    checked = [code for target in report.models[1].targets for code in target.checked]

    assert list(suites) == ["models/warn ä.onnx", "models/bad.onnx", "models/good.onnx", "models/none.onnx"]
    assert [case.get("name", "").split()[0] for case in bad] == checked
    assert len(checked) > 50
    assert failed == ["QP101 parameters.scale-value"] * len(TARGETS)
    assert "ws" in bad.find(".//failure").text
    assert suites["models/none.onnx"].find(".//error").get("type") == "unreadable"
    assert suites["models/warn ä.onnx"].find(".//failure") is None
    assert "QL302" in suites["models/warn ä.onnx"].find(".//system-out/..").get("name")
    for suite in root:
        assert int(suite.get("tests")) == len(suite)
    assert int(root.get("failures")) == len(root.findall(".//failure"))


def test_github_annotations(report: ValidateReport):
    lines = render("github", report).splitlines()

    assert lines[0] == "::error file=models/none.onnx,line=1,title=unreadable::none.onnx: no such file"
    assert lines[1].startswith(
        "::error file=models/bad.onnx,line=1,title=QP101 parameters.scale-value::DequantizeLinear -> wd: scale 'ws'"
    )
    assert any(line.startswith("::warning file=models/warn ä.onnx") for line in lines)
    assert lines[-1].startswith("4 models, ")


def test_markdown_has_verdicts_and_findings(report: ValidateReport):
    lines = render("markdown", report).splitlines()

    assert any(line.startswith("| bad.onnx | tensorrt | fail | 1 | 0 | ") for line in lines)
    assert any(line.startswith("| good.onnx | tensorrt | pass | 0 | 0 | ") for line in lines)
    assert any(line.startswith("| QP101 | error | refused | bad.onnx | tensorrt |") for line in lines)


def test_reports_tell_the_way_out(report: ValidateReport):
    remedy = rules.get("QP101").remedy
    annotation = next(line for line in render("github", report).splitlines() if "title=QP101" in line)
    failure = ET.fromstring(render("junit", report)).find(".//failure")
    listed = [html.unescape(line) for line in render("markdown", report).splitlines() if line.startswith("- ")]

    assert annotation.endswith(f"%0Afix: {remedy}")
    assert failure is not None
    assert (failure.text or "").splitlines()[-1] == f"fix: {remedy}"
    assert f"- QP101: {remedy}" in listed
    assert len(listed) == len({finding.code for finding in report.findings})


def test_concise_has_one_line_for_each_finding(report: ValidateReport):
    lines = render("concise", report).splitlines()

    assert len(lines) == len(report.findings) + 2
    assert any(line.startswith("bad.onnx: tensorrt: QP101 error [refused] DequantizeLinear -> wd: ") for line in lines)


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


def test_hostile_names_stay_in_their_xml_elements(hostile: ValidateReport):
    root = ET.fromstring(render("junit", hostile))

    assert {element.tag for element in root.iter()} == {"testsuites", "testsuite", "testcase", "failure"}


def test_hostile_names_stay_in_their_markdown_cells(hostile: ValidateReport):
    rows = [line for line in render("markdown", hostile).splitlines() if line.startswith("| QP101")]

    assert len(rows) == len(hostile.findings)
    for row in rows:
        cells = row.strip("| ").split(" | ")
        assert len(cells) == 7
        assert not set("<>`[]*@") & set("".join(cells))
        assert "[bold]" in html.unescape(cells[5])


def test_hostile_names_are_data_in_sarif(hostile: ValidateReport):
    run = sarif.read(render("sarif", hostile))

    assert len(run.results) == len(hostile.findings)
    assert all(result.locations[0].logical_locations[0].name.isprintable() for result in run.results)


def test_text_shows_the_neighbourhood_where_asked(report: ValidateReport, capsys: pytest.CaptureFixture[str]):
    assert "    graph: DequantizeLinear wd -> MatMul y\n" in text_of(report, capsys)


@pytest.mark.parametrize("code", ["QP101", "QL302", "QS002", "QP106"])
@pytest.mark.parametrize(
    "change", [reordered, lambda proto: renamed(proto, "val_"), lambda proto: renamed(proto, "onnx::X_")]
)
def test_fingerprints_survive_new_order_and_new_names(code: str, change):
    from qdqtool.graph.model import Model
    from qdqtool.jobs.validate import validate_model

    proto = rules.get(code).INVALID[0].model()
    first, second = (validate_model(Model(each), select=[code]).findings for each in (proto, change(proto)))

    assert first
    assert sorted(finding.structure for finding in first) == sorted(finding.structure for finding in second)
    if change is reordered:
        assert sorted(finding.fingerprint for finding in first) == sorted(finding.fingerprint for finding in second)


def test_names_that_are_only_renumbered_keep_the_fingerprint():
    from qdqtool.graph.model import Model
    from qdqtool.jobs.validate import validate_model

    proto = renamed(rules.get("QP101").INVALID[0].model(), "val_")
    shifted = onnx.ModelProto.FromString(
        re.sub(rb"val_(\d)", lambda match: b"val_%d" % ((int(match[1]) + 4) % 10), proto.SerializeToString())
    )
    first, second = (validate_model(Model(each), select=["QP101"]).findings for each in (proto, shifted))

    assert first[0].tensor != second[0].tensor
    assert first[0].fingerprint == second[0].fingerprint


def test_another_value_is_another_finding():
    from qdqtool.graph.model import Model
    from qdqtool.jobs.validate import validate_model

    one, other = rules.get("QP101").INVALID[:2]
    first, second = (validate_model(Model(each.model()), select=["QP101"]).findings for each in (one, other))

    assert first[0].fingerprint != second[0].fingerprint


def test_json_of_a_hostile_model_is_json(hostile: ValidateReport):
    assert json.loads(json_report.render(hostile))["summary"]["errors"] == len(hostile.findings)
