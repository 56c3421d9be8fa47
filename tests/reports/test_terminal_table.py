"""Tables fit their width: words stay whole, cells stay low, and what does not fit is left out and named."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from qdqtool.reports.terminal import MOST_LINES, FittedTable, ReportConsole

WORDS = "a rule that says in a whole sentence what is right and what is wrong"


def shown(table: FittedTable, width: int) -> list[str]:
    file = io.StringIO()
    ReportConsole(file, verbose=False, width=width).print(table)
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

    note = f"hidden columns: {', '.join(sorted(left_out))} (widen the terminal)"
    assert " ".join(lines[start:]).split() == note.split()
    assert set(lines[0].split()) == {"code", "severity", "rule", "text"} - left_out
    assert max(map(len, lines)) <= width


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
    note = lines.pop() if lines[-1].startswith("left out") else ""
    headings = {"first", "second", "one", "third"} - set(note.replace(",", "").split())

    assert set(" ".join(lines[:2]).split()) >= headings
    assert max(map(len, lines)) <= width
    if "second one" not in note:
        assert len(lines) <= 2 + MOST_LINES * len(rows)
