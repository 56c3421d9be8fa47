"""The terminal: tables that fit it, and a console that respects NO_COLOR and pipes."""

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any, TextIO

from rich.console import Console, ConsoleOptions
from rich.text import Text

from qdqtool.errors import escape, human_bytes, plural
from qdqtool.reports.blocks import Cell, Column, State, Table

MOST_LINES = 4
"""Largest number of lines of a cell; if a cell needs more, a column is left out."""

_GAP = 3
_LONGEST_WORD = 32
"""Words up to this length are not broken to make a column narrower; longer words may be."""


class FittedTable:
    """A table with bold headings and no lines between columns. In a narrow terminal, a row becomes several lines.

    Neither a heading nor a name is broken inside a word.

    Args:
        columns: The headings.
        optional: Headings of columns that may be left out, the least important one first.
        lines: Largest number of lines of a cell; optional columns are left out to keep to it.
        names_hidden: Whether hidden columns are named even without ``--verbose``.
        rows: Rows with a cell for each column; :meth:`add_row` adds more.
    """

    def __init__(
        self,
        *columns: str,
        rows: Iterable[Sequence[str | Text]] = (),
        optional: Sequence[str] = (),
        lines: int = MOST_LINES,
        names_hidden: bool = True,
    ) -> None:
        self._names_hidden = names_hidden
        self._lines = lines
        self._columns = [_Column(name) for name in columns]
        self._optional = [columns.index(name) for name in optional]
        for row in rows:
            self.add_row(*row)

    def add_row(self, *cells: str | Text) -> None:
        """Add a row with a cell for each column."""
        for column, cell in zip(self._columns, cells, strict=True):
            column.cells.append(cell if isinstance(cell, Text) else Text(cell))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        fit = self._fit(console, options.max_width)
        if fit is None:
            yield from self._stacked(console, options.max_width)
            return
        shown, widths = fit
        rows = zip(*(column.cells for column in shown), strict=True)
        for row in [tuple(column.heading for column in shown), *rows]:
            yield from _lines(row, widths, console)
        left_out = [column.name for column in self._columns if column not in shown]
        if left_out and (self._names_hidden or lists_all(console)):
            note = Text(f"hidden columns: {', '.join(left_out)} (widen the terminal)", "dim")
            yield from note.wrap(console, options.max_width)

    def _stacked(self, console: Console, total: int) -> Iterator[Text]:
        """Yield the first cell of each row, and below it the other cells, each after its heading."""
        first, *others = self._columns
        for at, cell in enumerate(first.cells):
            cells = [Text.assemble(column.name, " ", column.cells[at]) for column in others if column.cells[at].plain]
            line = Text.assemble("  ", Text("; ").join(cells))
            name = cell.copy()
            name.stylize("bold")
            # A name is broken only where the terminal is narrower than the name.
            yield from name.wrap(console, total, overflow="fold", no_wrap=False)
            yield from _broken(line, console, total)

    def _fit(self, console: Console, total: int) -> tuple[list["_Column"], list[int]] | None:
        """Return the columns that fit a width in characters, and their widths; None if a name does not fit."""
        for most in (self._lines, MOST_LINES):
            for count in range(len(self._optional) + 1):
                shown = [column for index, column in enumerate(self._columns) if index not in self._optional[:count]]
                widths = _widths([column.natural for column in shown], [column.least for column in shown], total)
                if widths is not None and all(map(_is_low, shown, widths, repeat(most), repeat(console))):
                    return shown, widths
        return None


class _Column:
    def __init__(self, name: str) -> None:
        self.name = name
        self.heading = Text(name, "bold")
        self.cells: list[Text] = []

    @property
    def natural(self) -> int:
        return max(cell.cell_len for cell in (self.heading, *self.cells))

    @property
    def longest_of_heading(self) -> int:
        return max(map(len, self.name.split()), default=1)

    @property
    def least(self) -> int:
        words = (len(word) for cell in self.cells for word in cell.plain.split())
        return max(self.longest_of_heading, min(max(words, default=1), _LONGEST_WORD))


def _widths(natural: list[int], least: list[int], total: int) -> list[int] | None:
    """Return widths that fit ``total``, with the widest columns cut first, or None if the least widths do not fit."""
    available = total - _GAP * (len(natural) - 1)
    if sum(least) > available:
        return None
    limit = max(natural)
    while sum(widths := [max(low, min(wish, limit)) for wish, low in zip(natural, least, strict=True)]) > available:
        limit -= 1
    return widths


def _is_low(column: _Column, width: int, most: int, console: Console) -> bool:
    return all(len(_wrapped(cell, width, console)) <= most for cell in column.cells)


def _wrapped(cell: Text, width: int, console: Console) -> Sequence[Text]:
    return [cell] if cell.cell_len <= width else [*cell.wrap(console, width, overflow="fold")]


def _lines(row: Sequence[Text], widths: Sequence[int], console: Console) -> Iterator[Text]:
    wrapped = [_wrapped(cell, width, console) for cell, width in zip(row, widths, strict=True)]
    for index in range(max(map(len, wrapped))):
        line = Text()
        for cell, width in zip(wrapped, widths, strict=True):
            part = cell[index].copy() if index < len(cell) else Text()
            part.rstrip()
            part.pad_right(width - part.cell_len + _GAP)
            line.append_text(part)
        line.rstrip()
        yield line


PIPE_WIDTH = 1 << 20
"""The width in a pipe, unless COLUMNS sets one: a row of a table is then one line, which ``grep`` finds as a whole."""
_HANGING = 2
"""Additional indent of the second and later lines of a broken line, in characters."""


class ReportConsole(Console):
    """The console on which reports are printed.

    Args:
        file: Where to print.
        verbose: Whether lists are printed in full.
        width: Characters in a line; None for COLUMNS or the width of the terminal.
    """

    def __init__(self, file: TextIO, *, verbose: bool, width: int | None) -> None:
        super().__init__(file=file, width=width, markup=False, emoji=False, highlight=False, soft_wrap=True)
        self.verbose = verbose

    def print(self, *objects: Any, **options: Any) -> None:
        """Print like rich; on a terminal, a line that is too long is broken between words and indented."""
        if len(objects) == 1 and isinstance(objects[0], str | Text) and self.width < PIPE_WIDTH:
            style = options.pop("style", "") or ""
            objects = (
                Text("\n").join(_broken(Text(objects[0], style) if isinstance(objects[0], str) else objects[0], self)),
            )
        super().print(*objects, **options)


def make_console(file: TextIO | None = None, *, verbose: bool = False) -> ReportConsole:
    """Return a console on ``file`` (default stdout), with colors only on a terminal, and without markup and emoji."""
    stream = file or sys.stdout
    has_width = stream.isatty() or os.environ.get("COLUMNS", "").isdigit()
    return ReportConsole(stream, verbose=verbose, width=None if has_width else PIPE_WIDTH)


def _broken(text: Text, console: Console, width: int | None = None) -> Iterator[Text]:
    width = console.width if width is None else width
    for line in text.split("\n", allow_blank=True):
        indent = len(line.plain) - len(line.plain.lstrip(" "))
        if line.cell_len <= width or indent + _HANGING >= width // 2:
            yield line
            continue
        parts = line[indent:].wrap(console, width - indent - _HANGING)
        for index, part in enumerate(parts):
            part.rstrip()
            yield Text(" " * (indent + (_HANGING if index else 0))).append_text(part)


def print_unbroken(what: str | FittedTable, console: Console) -> None:
    """Print lines that programs such as ``grep`` can read: lines are broken only on a terminal.

    Args:
        what: A text, or a table whose rows become one line each.
        console: Where to print. In a pipe, the width from COLUMNS is ignored.
    """
    width = console.width
    if not console.is_terminal:
        # The width option of rich's print cannot exceed the width of the console.
        console.width = PIPE_WIDTH
    console.print(what)
    console.width = width


def sizes_line(before: int, after: int) -> str:
    """Return file sizes before and after, with their ratio."""
    ratio = f" ({after / before:.0%})" if before else ""
    return f"size {human_bytes(before)} -> {human_bytes(after)}{ratio}"


_STYLES: Mapping[State, str] = {"passed": "green", "failed": "bold red", "warning": "yellow", "skipped": "yellow"}


def fitted(table: Table, *, lines: int = MOST_LINES) -> FittedTable:
    """Return a table of blocks for a terminal: without caption, with short headings and cells, and states in color.

    Args:
        table: The table.
        lines: Largest number of lines of a cell; optional columns are left out to keep to it.
    """
    spare = sorted((column for column in table.columns if column.spare), key=lambda column: -column.spare)
    rows = ([*map(_on_terminal, row)] for row in table.rows)
    return FittedTable(
        *map(_heading, table.columns), rows=rows, optional=[*map(_heading, spare)], lines=lines, names_hidden=False
    )


def _on_terminal(cell: Cell) -> Text:
    return Text(cell.text if cell.short is None else cell.short, _STYLES.get(cell.state or "unknown", ""))


def _heading(column: Column) -> str:
    return column.title[:1].lower() + column.title[1:] if column.short is None else column.short


def print_written(output: str, console: Console, *, weights: str | None = None) -> None:
    """Print the written file, and the file with its weights if there is one."""
    console.print(Text.assemble("wrote ", (escape(output), "bold")))
    if weights:
        console.print(Text.assemble("weights in ", (escape(weights), "bold")))


def placed(name: str, graph: str) -> str:
    """Return an escaped name with its scope."""
    return f"{escape(name)} in {escape(graph)}" if graph else escape(name)


def named(names: Sequence[str], shown: int) -> str:
    """Return the first ``shown`` names, escaped, and the number of all names if there are more."""
    more = f", … ({len(names)} in all)" if len(names) > shown else ""
    return ", ".join(map(escape, names[:shown])) + more


def quantized_tensors(activations: int, weights: int) -> str:
    """Return how many tensors are quantized, and of which kind."""
    counts = ((activations, "activation"), (weights, "weight"))
    kinds = ", ".join(plural(count, kind) for count, kind in counts if count)
    return plural(activations + weights, "quantized tensor") + (f" ({kinds})" if kinds else "")


def lists_all(console: Console) -> bool:
    """Whether lists are printed in full (``--verbose``)."""
    return isinstance(console, ReportConsole) and console.verbose


def limit(console: Console, count: int) -> int | None:
    """Return how many entries of a list to print: ``count``, or None (all) with ``--verbose``."""
    return None if lists_all(console) else count


def print_rest(count: int, shown: int, console: Console, *, what: str = "more") -> None:
    """Print how many of ``count`` entries were not printed, if only ``shown`` were."""
    if count > shown and not lists_all(console):
        console.print(f"  … and {count - shown} {what} (-v lists all)")
