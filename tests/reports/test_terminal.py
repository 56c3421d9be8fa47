"""Strings from models cannot control a terminal, numbers are readable, tables fit, and long lists are cut."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text
from support.printed import ESCAPED, HOSTILE, printed

from qdqtool.errors import escape, human_bytes, is_unsafe
from qdqtool.reports.blocks import Cell, Column, Table
from qdqtool.reports.terminal import (
    MOST_LINES,
    PIPE_WIDTH,
    FittedTable,
    ReportConsole,
    fitted,
    limit,
    lists_all,
    make_console,
    print_rest,
    sizes_line,
)


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


def test_a_list_is_cut_unless_all_was_asked_for():
    assert printed(lambda console: console.print(limit(console, 3), lists_all(console))) == "3 False\n"
    assert printed(lambda console: console.print(limit(console, 3), lists_all(console)), verbose=True) == "None True\n"


def test_what_is_left_is_counted_with_the_option_that_lists_it():
    assert printed(print_rest, 4, 4) == ""
    assert printed(print_rest, 6, 4) == "  … and 2 more (-v lists all)\n"
    assert printed(print_rest, 6, 4, what="more of QP101") == "  … and 2 more of QP101 (-v lists all)\n"
    assert printed(print_rest, 6, 4, verbose=True) == ""


WORDS = "a rule that says in a whole sentence what is right and what is wrong"


def shown(table: FittedTable, width: int, *, verbose: bool = False) -> list[str]:
    file = io.StringIO()
    ReportConsole(file, verbose=verbose, width=width).print(table)
    return file.getvalue().splitlines()


def catalogue() -> FittedTable:
    table = FittedTable("code", "severity", "targets", "rule text", optional=("targets", "severity"))
    table.add_row("Q1", Text("error", "red"), "onnx, ort-cpu, tensorrt, tensorrt-rtx", WORDS)
    table.add_row("Q2", "warning", "onnx", "short")
    return table


def test_where_there_is_room_every_row_is_one_line_without_spaces_behind():
    head, first, second = shown(catalogue(), 1000)
    assert head.split() == ["code", "severity", "targets", "rule", "text"]
    assert first.endswith(WORDS)
    assert second.index("short") == first.index(WORDS) == head.index("rule text")
    assert not any(line.endswith(" ") for line in (head, first, second))


def test_the_widest_cells_wrap_between_words_first():
    head, *rows = shown(catalogue(), 80)
    column = head.index("rule text")
    assert max(map(len, rows)) <= 80
    assert [row[:4].strip() for row in rows] == ["Q1", "", "", "Q2"]
    assert " ".join(row[column:] for row in rows) == f"{WORDS} short"


@pytest.mark.parametrize(("width", "left_out"), [(42, {"targets"}), (28, {"severity", "targets"})])
def test_columns_that_would_make_cells_too_high_are_left_out_and_named(width: int, left_out: set[str]):
    lines = shown(catalogue(), width)
    start = next(index for index, line in enumerate(lines) if line.startswith("hidden columns"))
    assert (
        " ".join(lines[start:]).split() == f"hidden columns: {', '.join(sorted(left_out))} (widen the terminal)".split()
    )
    assert set(lines[0].split()) == {"code", "severity", "rule", "text"} - left_out
    assert max(map(len, lines)) <= width


def test_details_that_nobody_asked_for_are_not_named():
    table = Table("Rows", (Column("Name"), Column("Detail", spare=1)), ((Cell("a" * 20), Cell("b" * 20)),))
    assert shown(fitted(table), 30) == ["name", "a" * 20]
    assert shown(fitted(table), 30, verbose=True)[-2].startswith("hidden columns: detail")


def test_a_row_whose_names_would_be_cut_is_stacked():
    table = FittedTable("kernel", "nodes", "reads", "bytes")
    table.add_row("__myl_MulAddRelu_0", "node_of_185_output", "", "float32 922 kB")
    assert shown(table, 40) == ["__myl_MulAddRelu_0", "  nodes node_of_185_output; bytes", "    float32 922 kB"]
    assert shown(table, 80)[0].split() == ["kernel", "nodes", "reads", "bytes"]


def test_a_table_of_low_rows_leaves_columns_out_sooner():
    def heading(lines: int) -> str:
        table = FittedTable("rule", "note", optional=("note",), lines=lines)
        table.add_row(WORDS, "a note of some length")
        return shown(table, 50)[0]

    assert heading(4).split() == ["rule", "note"]
    assert heading(2).split() == ["rule"]


def test_a_column_that_must_stay_folds_its_long_names():
    table = FittedTable("tensor", "count")
    table.add_row("n" * 100, "1")
    assert shown(table, 60) == ["tensor" + " " * 49 + "count", "n" * 52 + "   1", "n" * 48]


CELLS = st.lists(st.text("ab ", max_size=90), min_size=3, max_size=3)


@given(st.lists(CELLS, max_size=4), st.integers(min_value=48, max_value=120))
def test_no_heading_is_cut_and_no_cell_is_high_while_a_column_can_go(rows: list[list[str]], width: int):
    table = FittedTable("first", "second one", "third", optional=("third", "second one"))
    for row in rows:
        table.add_row(*row)
    lines = shown(table, width)
    note = lines.pop() if lines[-1].startswith("hidden columns") else ""
    headings = {"first", "second", "one", "third"} - set(note.replace(",", "").split())

    assert set(" ".join(lines[:2]).split()) >= headings
    assert max(map(len, lines)) <= width
    if "second one" not in note:
        assert len(lines) <= 2 + MOST_LINES * len(rows)
