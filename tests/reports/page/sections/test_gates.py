"""Gates: missed ones first, then those that warn, each with what was found."""

from pathlib import Path
from typing import Any

from support.page_blocks import blocks_of, sentences, states, table, texts
from support.printed import ESCAPED, HOSTILE
from support.saved_reports import BUILD, CHECK, QUANTIZE, edited

from qdqtool.reports.page.sections.gates import blocks

GATE = CHECK["gates"][0]


def checked(*gates: Any) -> Any:
    return edited(CHECK, lambda it: it.update(gates=[{**GATE, **gate} for gate in gates]))


def test_missed_gates_come_first_then_those_that_warn(tmp_path: Path):
    check = checked(
        {"name": "held"},
        {"name": "doubtful", "warnings": ["on random data"]},
        {"name": "missed", "passed": False, "failures": ["a", "b"], "warnings": ["c"]},
    )
    found = table(blocks_of(blocks, tmp_path, check=check))

    assert texts(found, "Gate") == ["missed", "doubtful", "held"]
    assert texts(found, "State") == ["FAILED", "warning", "passed"]
    assert states(found, "State") == ["failed", "warning", "passed"]
    assert texts(found, "Found") == ["2 of 2 agree; a; b; c", "2 of 2 agree; on random data", "2 of 2 agree"]
    assert texts(found, "Requires") == ["bits"] * 3
    assert sentences(found) == ["Requires", "Found"]


def test_gates_of_check_and_build_stand_together_each_with_its_report(tmp_path: Path):
    build = edited(BUILD, lambda it: it["gates"].append({"gate": "int8>=100%", "passed": False, "found": "0 of 1"}))
    found = table(blocks_of(blocks, tmp_path, check=checked({}), build=build, again=checked({"passed": False})))

    assert [[cell.text for cell in row] for row in found.rows] == [
        ["own-core", "FAILED", "bits", "2 of 2 agree", "again.json"],
        ["int8>=100%", "FAILED", "precision of the engine", "0 of 1", ""],
        ["own-core", "passed", "bits", "2 of 2 agree", "check.json"],
        ["int8>=90%", "passed", "precision of the engine", "1 of 1", ""],
    ]
    assert states(found, "State") == ["failed", "failed", "passed", "passed"]


def test_one_report_is_not_named_in_every_row(tmp_path: Path):
    found = table(blocks_of(blocks, tmp_path, check=checked({}), build=BUILD))
    assert [column.title for column in found.columns] == ["Gate", "State", "Requires", "Found"]


def test_words_of_models_are_escaped(tmp_path: Path):
    found = table(blocks_of(blocks, tmp_path, check=checked({"detail": HOSTILE, "passed": False})))
    assert texts(found, "Found") == [ESCAPED]


def test_without_gates_there_is_no_table(tmp_path: Path):
    assert blocks_of(blocks, tmp_path, check=checked()) == ()
    assert blocks_of(blocks, tmp_path, quantize=QUANTIZE) == ()
