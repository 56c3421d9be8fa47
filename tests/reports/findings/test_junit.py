"""JUnit XML: suites, cases and failures."""

from xml.etree import ElementTree as ET

from qdqtool.linting.report import ValidateReport
from qdqtool.reports.findings.junit import render


def test_junit_has_a_suite_for_each_model_and_a_case_for_each_rule(report: ValidateReport):
    root = ET.fromstring(render(report))
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


def test_hostile_names_stay_in_their_xml_elements(hostile: ValidateReport):
    root = ET.fromstring(render(hostile))

    assert {element.tag for element in root.iter()} == {"testsuites", "testsuite", "testcase", "failure"}
