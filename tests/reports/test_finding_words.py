"""Words and paths that all validate formats share."""

from dataclasses import replace
from pathlib import Path

import pytest
from support.printed import ESCAPED, HOSTILE

from qdqtool.linting.findings import Finding, Severity
from qdqtool.linting.report import Ignored, ModelReport, Summary, ValidateReport, target_report
from qdqtool.reports.finding_words import (
    counts,
    from_repository,
    place,
    repository_path,
    repository_root,
    sentence,
    worst_first,
)

FINDING = Finding(
    code="QP101", name="parameters.scale-value", severity="error", effect="refused", message="scale is 0", node="n1"
)
NONE = Summary()


def found(severity: Severity, message: str) -> Finding:
    return replace(FINDING, severity=severity, message=message)


def validated(*models: ModelReport, summary: Summary = NONE) -> ValidateReport:
    return ValidateReport(models, summary)


def test_a_place_is_the_node_with_its_scope():
    assert place(FINDING) == "n1"
    assert place(replace(FINDING, graph="then")) == "then/n1"
    assert place(replace(FINDING, node=None, graph="then")) == ""
    assert place(replace(FINDING, node=HOSTILE)) == ESCAPED


def test_a_sentence_has_place_message_and_expectation():
    assert sentence(FINDING) == "n1: scale is 0"
    assert sentence(replace(FINDING, node=None, expected="> 0")) == "scale is 0; expected > 0"
    assert sentence(replace(FINDING, message=HOSTILE, expected=HOSTILE)) == f"n1: {ESCAPED}; expected {ESCAPED}"


def test_the_worst_finding_of_all_models_is_first():
    first = ModelReport("a", (target_report("onnx", [found("info", "1"), found("warning", "2")], checked=()),))
    second = ModelReport("b", (target_report("onnx", [found("error", "3"), found("warning", "4")], checked=()),))
    listed = [(model.path, finding.message) for model, _, finding in worst_first(validated(first, second))]
    assert listed == [("b", "3"), ("a", "2"), ("b", "4"), ("a", "1")]


def test_counts_name_what_is_not_shown_only_where_there_is_any():
    good = ModelReport("a", ())
    assert counts(validated(good)) == "1 model, 0 errors, 0 warnings, 0 infos"
    assert (
        counts(validated(good, ModelReport("b", (), "no such file"), summary=Summary(1, 2, 3, 4, 5)))
        == "2 models, 1 error, 2 warnings, 3 infos, 4 suppressed, 5 in the baseline, 1 unreadable"
    )


def test_counts_name_the_targets_since_a_finding_counts_once_for_each():
    target = target_report("onnx", [found("error", "1")], checked=())
    report = validated(ModelReport("a", (target, replace(target, target="ort-cpu"))), summary=Summary(errors=2))
    assert counts(report) == "1 model for 2 targets, 2 errors, 0 warnings, 0 infos"


def test_counts_name_the_rules_that_are_ignored_and_models_without_qdq():
    target = replace(target_report("onnx", (), checked=()), ignored=(Ignored("QS002", 2), Ignored("QP101", 0)))
    report = validated(ModelReport("a", (target,), qdq_nodes=0), summary=Summary(ignored=2))
    assert counts(report) == "1 model, 0 errors, 0 warnings, 0 infos, 2 ignored (QS002), 1 without Q/DQ"


def test_paths_start_at_the_root_of_the_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    (tmp_path / "repo" / "models").mkdir()
    monkeypatch.chdir(tmp_path / "repo" / "models")

    assert repository_root() == tmp_path / "repo"
    assert repository_path("a.onnx") == "models/a.onnx"
    assert repository_path("../b.onnx") == "b.onnx"
    assert from_repository("../../c.onnx") == tmp_path / "c.onnx"
