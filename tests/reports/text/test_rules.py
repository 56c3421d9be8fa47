"""What the terminal says of the rule catalogue and of one rule."""

from dataclasses import replace

import pytest
from support.printed import cells, printed

from qdqtool.jobs.catalogue import Catalogue, RuleCard, TargetImpact, catalogue, explain
from qdqtool.reports.text.rules import render, render_rule

CARD = replace(catalogue().rules[0], code="QX001", name="group.name", summary="A summary.")


def row(*impacts: TargetImpact) -> list[str]:
    _, found, *_ = cells(printed(render, Catalogue((replace(CARD, impacts=impacts),))))
    return found


def test_a_rule_with_one_severity_names_it_once():
    same = (TargetImpact("onnx", "error", "refused"), TargetImpact("ort-cpu", "error", "silent"))
    assert row(*same) == ["QX001", "group.name", "error", "refused/silent", "onnx, ort-cpu", "A summary."]


def test_a_rule_with_several_severities_names_all():
    several = (TargetImpact("onnx", "error", "refused"), TargetImpact("ort-cpu", "warning", "refused"))
    assert row(*several)[2:4] == ["error/warning", "refused"]


def test_a_pipe_gets_a_line_for_each_rule_whatever_the_width(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "60")
    found = catalogue()
    lines = printed(render, found).splitlines()
    assert [line.split()[0] for line in lines[1 : len(found.rules) + 1]] == [card.code for card in found.rules]
    assert all(line.endswith(card.summary) for line, card in zip(lines[1:], found.rules, strict=False))


@pytest.mark.parametrize(("code", "has_fix"), [("QP106", False), ("QP101", True)])
def test_a_rule_says_whether_it_has_an_automatic_fix(code: str, has_fix: bool):
    text = printed(render_rule, explain(code))
    assert ("--fix: no automatic fix" in text) is not has_fix
    assert ("--fix (" in text) is has_fix


def test_the_last_lines_count_the_rules_and_list_the_targets():
    rules: tuple[RuleCard, ...] = (CARD, CARD)
    *_, count, targets = printed(render, Catalogue(rules)).splitlines()
    assert count == "2 rules; qdqtool explain CODE shows one in full"
    assert targets.startswith("targets: ")
    assert all(name in targets for name in ("onnx", "ort-cpu", "tensorrt", "tensorrt-rtx"))
