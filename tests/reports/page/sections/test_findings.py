"""Findings: the severest first, each once, with the text of every rule that has some."""

from pathlib import Path
from typing import Any

from support.page_blocks import blocks_of, facts, lines, sentences, states, table, texts
from support.printed import ESCAPED, HOSTILE
from support.saved_reports import CHECK, QUANTIZE, VALIDATE, edited

from qdqtool.jobs.catalogue import catalogue
from qdqtool.reports.blocks import Block
from qdqtool.reports.page.sections.findings import blocks

FINDING = VALIDATE["models"][0]["targets"][0]["findings"][0]


def validated(*findings: Any, **targets: Any) -> Any:
    """A report of ``validate`` with changed findings for TensorRT, and for other targets."""

    def edit(report: Any) -> None:
        (target,) = report["models"][0]["targets"]
        found = {"tensorrt": findings, **targets}
        report["models"][0]["targets"] = [
            {**target, "target": name, "findings": [{**FINDING, **each} for each in its]} for name, its in found.items()
        ]

    return edited(VALIDATE, edit)


def made(folder: Path, *findings: Any, **targets: Any) -> tuple[Block, ...]:
    return blocks_of(blocks, folder, validate=validated(*findings, **targets))


def test_the_severest_come_first_in_their_colours_then_rules_by_code(tmp_path: Path):
    found = table(
        made(
            tmp_path, {"severity": "info"}, {"code": "QP102"}, {"code": "QP101"}, {"code": "QS002", "severity": "error"}
        )
    )

    assert texts(found, "Severity") == ["error", "warning", "warning", "info"]
    assert states(found, "Severity") == ["failed", "warning", "warning", None]
    assert [text.split()[0] for text in texts(found, "Rule")] == ["QS002", "QP101", "QP102", "QP101"]


def test_severities_sort_as_they_weigh_and_not_by_their_letters(tmp_path: Path):
    found = table(made(tmp_path, {"severity": "info"}, {"severity": "error"}, {"severity": "warning"}))
    weights = [str(row[1].sort) for row in found.rows]
    assert weights == sorted(weights)
    assert len({*weights}) == 3


def test_findings_of_one_rule_keep_the_order_of_the_report(tmp_path: Path):
    names = [f"n{number * 37 % 50}" for number in range(50)]
    assert texts(table(made(tmp_path, *({"node": name} for name in names))), "Node") == names


def test_what_validate_and_quantize_both_say_is_told_once_for_each_target(tmp_path: Path):
    quantize = edited(QUANTIZE, lambda it: it.update(findings=[FINDING]))
    found = blocks_of(blocks, tmp_path, validate=validated({}, onnx=[{}]), quantize=quantize)
    assert texts(table(found), "Target") == ["onnx", "tensorrt"]
    (target,) = texts(table(blocks_of(blocks, tmp_path, quantize=quantize)), "Target")
    assert target == QUANTIZE["target"]


def test_places_are_nodes_with_their_scope_or_the_model(tmp_path: Path):
    found = table(made(tmp_path, {"node": None}, {"graph": "body"}, {"node": HOSTILE, "message": HOSTILE}))
    assert texts(found, "Node") == ["the model", "body/conv", ESCAPED]
    assert texts(found, "Finding") == ["scale is 0", "scale is 0", ESCAPED]
    assert texts(found, "Effect") == ["silent"] * 3
    assert sentences(found) == ["Finding"]


def test_each_rule_has_its_text_once_and_one_of_another_version_says_so(tmp_path: Path):
    rule = next(rule for rule in catalogue().rules if rule.code == "QP101")
    assert facts(made(tmp_path, {}, {"node": "fc"}, {"code": "QX999"})) == [
        ("QP101", f"{rule.summary} {rule.remedy}", None),
        ("QX999", "this version of qdqtool does not know the rule", "unknown"),
    ]


def test_no_finding_is_said_only_where_rules_were_asked(tmp_path: Path):
    nothing = [("Findings", ("No rule found anything.",))]
    assert lines(made(tmp_path)) == nothing
    assert lines(blocks_of(blocks, tmp_path, quantize=QUANTIZE)) == nothing
    assert blocks_of(blocks, tmp_path, check=CHECK) == ()
