"""Every entry of the table explains a message that TensorRT for RTX printed, and none is hidden by an earlier one.

The messages are recorded by ``benchmarks/refusals.py --record``, with the models that they are of;
``tests/benchmarks/test_refusals.py`` asks the real parser and builder for them again.
"""

import json
import re
from pathlib import Path

import pytest

from qdqtool.engines.tensorrt.known_refusals import KNOWN
from qdqtool.engines.tensorrt.parser_errors import strip_noise, translate
from qdqtool.linting import rules

ROWS = json.loads((Path(__file__).parents[1] / "data" / "refusals.json").read_text(encoding="utf-8"))
UNRECORDED = {
    "within workspace": "no option of ours limits the workspace",
    "dynamic or shape inputs, but no optimization profile": "we give a profile wherever one is needed",
    **dict.fromkeys(
        ("scale != 0", "MultiHeadAttention", "Q, K, and V", "must be FP16", "input_skip_bias_sum"),
        "tests/benchmarks/test_contrib_operators.py has the models",
    ),
    "values for profile": "tests/engines/tensorrt/test_process.py has a model",
}
"""Parts of the patterns that no model of the corpora leads to, and why."""


def entries(message: str) -> list[int]:
    return [number for number, entry in enumerate(KNOWN) if entry.pattern.search(message)]


def title(row: dict[str, str]) -> str:
    return f"{row['stage']}-{strip_noise(row['message'])[:50]}"


@pytest.mark.parametrize("row", ROWS, ids=title)
def test_a_recorded_message_is_explained_by_its_own_entry(row: dict[str, str]):
    first = KNOWN[entries(row["message"])[0]]
    assert first.reason == row["reason"]

    refusal = translate(row["message"], node="n", op_type=row["operator"])
    assert refusal.explained
    assert refusal.hint
    assert refusal.rules == first.rules
    written = refusal.reason + re.sub(r"`[^`]*`", "", refusal.hint)
    assert not re.search(r"\{\d|unknown|cuda|/_src/|kFLOAT|\b(Float|Half|Int8)\b", written), written


def test_every_entry_explains_a_recorded_message_that_no_earlier_entry_does():
    reached = {entries(row["message"])[0] for row in ROWS}
    hidden = [entry.pattern.pattern for number, entry in enumerate(KNOWN) if number not in reached]
    assert [pattern for pattern in hidden if not any(part in pattern for part in UNRECORDED)] == []


def test_where_two_entries_match_a_message_the_special_one_stands_first():
    several = {tuple(entries(row["message"])) for row in ROWS if len(entries(row["message"])) > 1}
    matched = [{index for index, row in enumerate(ROWS) if entry.pattern.search(row["message"])} for entry in KNOWN]
    for first, *others in several:
        for other in others:
            assert not matched[other] <= matched[first], (KNOWN[first].pattern, KNOWN[other].pattern)
    # The test would say nothing of a table without such pairs.
    assert several


@pytest.mark.parametrize("message", ["The moon is full.", "Assertion x > 0 failed.", "node 3 has input type Moon"])
def test_an_unknown_message_is_in_no_entry(message: str):
    assert entries(message) == []
    assert not translate(message).explained


def test_the_rules_that_entries_name_exist():
    assert {code for entry in KNOWN for code in entry.rules} <= {rule.code for rule in rules.catalogue()}


def test_no_two_entries_have_one_pattern():
    patterns = [entry.pattern.pattern for entry in KNOWN]
    assert len(set(patterns)) == len(patterns)


def test_every_entry_has_a_hint():
    assert [entry.pattern.pattern for entry in KNOWN if not entry.hint] == []
