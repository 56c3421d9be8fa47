"""Planned and actual precision: nodes with another one first, counts in their colours, refusals in front."""

from pathlib import Path
from typing import Any

from support.page_blocks import blocks_of, column, facts, lines, sentences, states, table, texts
from support.printed import ESCAPED, HOSTILE
from support.saved_reports import ALL, BUILD, REFUSED, edited

from qdqtool.reports.page.sections.precision import blocks

NODE = BUILD["nodes"][0]


def built(*nodes: Any, **changes: Any) -> Any:
    return edited(BUILD, lambda it: it.update(nodes=[{**NODE, **node} for node in nodes], **changes))


def test_nodes_with_another_precision_come_first_each_kind_in_its_order(tmp_path: Path):
    nodes = (
        {"name": "as planned"},
        {"name": "slower", "actual": "float32", "reason": "no kernel"},
        {"name": "also"},
        {"name": "not told", "actual": "unknown", "kernel": None},
    )
    found = table(blocks_of(blocks, tmp_path, build=built(*nodes)))

    assert texts(found, "Node") == ["slower", "not told", "as planned", "also"]
    assert texts(found, "Planned") == ["int8"] * 4
    assert texts(found, "Actual") == ["float32", "unknown", "int8", "int8"]
    assert states(found, "Actual") == ["warning", "unknown", "passed", "passed"]
    assert texts(found, "Kernel") == ["conv_kernel", "unknown", "conv_kernel", "conv_kernel"]
    assert states(found, "Kernel") == [None, "unknown", None, None]
    assert texts(found, "Reason") == ["no kernel", "", "", ""]
    assert sentences(found) == ["Reason"]


def test_counts_are_green_only_where_all_was_achieved(tmp_path: Path):
    build = built({}, planned={"int8": 3, "fp8": 2, "int4": 1}, achieved={"int8": 2, "fp8": 2})
    assert facts(blocks_of(blocks, tmp_path, build=build)) == [
        ("Evidence", "aot-dump", None),
        ("Planned int8", "2 of 3 nodes", "warning"),
        ("Planned fp8", "2 of 2 nodes", "passed"),
        ("Planned int4", "0 of 1 nodes", "warning"),
    ]


def test_without_evidence_nothing_is_known(tmp_path: Path):
    found = blocks_of(blocks, tmp_path, build=built(evidence="none"))
    assert facts(found) == [("Evidence", "none", None), ("Planned int8", "unknown for 1 nodes", "unknown")]
    assert len(found) == 1


def test_every_build_has_its_own_blocks_with_what_the_builder_warned_of(tmp_path: Path):
    found = blocks_of(blocks, tmp_path, build=built({}), other=built({}, warnings=["slow", "old"]))
    assert [text for name, text, _ in facts(found) if name == "Report"] == ["build.json", "other.json"]
    assert [type(block).__name__ for block in found] == ["Facts", "Table", "Facts", "Table", "Lines"]
    assert lines(found) == [("Warnings of the builder", ("slow", "old"))]


def test_refusals_come_first_with_the_nodes_that_they_name(tmp_path: Path):
    refused = edited(REFUSED, lambda it: it["refusals"].append({"message": "too large", "node": None}))
    found = blocks_of(blocks, tmp_path, build=built({}), refused=refused)
    assert lines(found[:1]) == [("Refused", ("the parser refused it", "conv: no such operator", "too large"))]
    assert len(found) == 3


def test_names_have_their_scope_and_are_escaped(tmp_path: Path):
    found = table(blocks_of(blocks, tmp_path, build=built({"name": HOSTILE, "graph": "body", "kernel": HOSTILE})))
    assert texts(found, "Node") == [f"body/{ESCAPED}"]
    assert [cell.text for cell in column(found, "Kernel")] == [ESCAPED]


def test_only_build_knows_it(tmp_path: Path):
    assert blocks_of(blocks, tmp_path, **{name: ALL[name] for name in ALL if name != "build"}) == ()
