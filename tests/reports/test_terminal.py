"""Strings from models cannot control a terminal, and numbers are readable."""

import io

import pytest
from rich.text import Text
from support.printed import ESCAPED, HOSTILE

from qdqtool.errors import escape, human_bytes, is_unsafe
from qdqtool.reports.terminal import PIPE_WIDTH, FittedTable, ReportConsole, make_console, sizes_line


@pytest.mark.parametrize(
    ("raw", "escaped"),
    [
        (HOSTILE, ESCAPED),
        ("conv_1/Größe 模型", "conv_1/Größe 模型"),
        ("\x7f\x9b\u2028", r"\x7f\x9b\u2028"),
        ("\ud800", r"\ud800"),
        ("", ""),
    ],
)
def test_only_unsafe_characters_are_escaped(raw: str, escaped: str):
    assert escape(raw) == escaped


def test_no_escaped_text_holds_an_unsafe_character():
    assert not any(map(is_unsafe, escape("".join(map(chr, range(0x3000))))))


def test_a_pipe_gets_plain_text_and_long_lines_stay_whole():
    file = io.StringIO()
    line = "word " * PIPE_WIDTH
    make_console(file).print(Text("[red]:smile: ", "bold red").append(line))

    assert file.getvalue() == f"[red]:smile: {line}\n"


def test_a_table_has_one_line_for_a_row():
    file = io.StringIO()
    table = FittedTable("name", "count")
    table.add_row("[bold]", "1")
    make_console(file).print(table)

    assert [line.split() for line in file.getvalue().splitlines()] == [["name", "count"], ["[bold]", "1"]]


def test_a_width_that_the_environment_names_holds_in_a_pipe_too(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "40")
    assert make_console(io.StringIO()).width == 40
    monkeypatch.setenv("COLUMNS", "wide")
    assert make_console(io.StringIO()).width == PIPE_WIDTH


def test_a_long_line_is_broken_between_words_and_what_follows_is_indented():
    file = io.StringIO()
    console = ReportConsole(file, verbose=False, width=30)
    console.print("  note     the ranges say nothing about real inputs", style="yellow")
    console.print("short")
    console.print(Text.assemble("wrote ", ("n" * 40, "bold"), "\n\nend"))

    assert file.getvalue().splitlines() == [
        "  note     the ranges say",
        "    nothing about real inputs",
        "short",
        "wrote",
        "  " + "n" * 28,
        "  " + "n" * 12,
        "",
        "end",
    ]


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (999, "999 bytes"),
        (1000, "1 kB"),
        (1_500_000, "1.5 MB"),
        (2_000_000_000, "2 GB"),
        (3_000_000_000_000, "3e+03 GB"),
    ],
)
def test_sizes_are_in_the_largest_decimal_unit(count: int, text: str):
    assert human_bytes(count) == text


def test_sizes_before_and_after_come_with_their_ratio():
    assert sizes_line(4000, 1000) == "size 4 kB -> 1 kB (25%)"
    assert sizes_line(0, 1000) == "size 0 bytes -> 1 kB"
