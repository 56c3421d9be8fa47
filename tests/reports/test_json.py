"""Reports as JSON: any string comes back as it was, and none can play tricks on a terminal."""

import json
from dataclasses import dataclass

import pytest

from qdqtool.reports.json import render, spell_unsafe


@dataclass(frozen=True)
class Report:
    name: str


@pytest.mark.parametrize(
    "char", ["\x00", "\x1b", "\x7f", "\x9b", "\u00ad", "\u200b", "\u202e", "\u2028", "\u2066", "\ufeff", "\U000e0041"]
)
def test_a_character_that_a_terminal_would_obey_is_spelled_out(char: str):
    text = render(Report(f"a{char}b"))
    assert char not in text
    assert json.loads(text)["name"] == f"a{char}b"


def test_letters_of_every_script_stay_readable():
    assert "Größe 模型 слой 🙂" in render(Report("Größe 模型 слой 🙂"))


def test_line_breaks_between_keys_stay():
    assert spell_unsafe('{\n  "a": 1\n}') == '{\n  "a": 1\n}'
