"""A table that fits its terminal: long cells wrap between words, and columns that do not fit are left out."""

from collections.abc import Iterator, Sequence
from itertools import repeat

from rich.console import Console, ConsoleOptions
from rich.text import Text

MOST_LINES = 4
"""Lines that a cell may take before a column is left out for it."""

_GAP = 3
_LONGEST_WORD = 32
"""Longest word, in characters, that keeps a column from becoming narrower; longer ones are names, which may fold."""


class FittedTable:
    """Rows below bold headings, without lines between the columns.

    A heading is never cut inside a word.

    Args:
        columns: The headings.
        optional: Headings of columns that may be left out, the least important one first.
        lines: Lines that a cell takes at most where leaving columns out can achieve that.
    """

    def __init__(self, *columns: str, optional: Sequence[str] = (), lines: int = MOST_LINES) -> None:
        self._lines = lines
        self._columns = [_Column(name) for name in columns]
        self._optional = [columns.index(name) for name in optional]

    def add_row(self, *cells: str | Text) -> None:
        """Add a row with a cell for each column."""
        for column, cell in zip(self._columns, cells, strict=True):
            column.cells.append(cell if isinstance(cell, Text) else Text(cell))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        shown, widths = self._fit(console, options.max_width)
        rows = zip(*(column.cells for column in shown), strict=True)
        for row in [tuple(column.heading for column in shown), *rows]:
            yield from _lines(row, widths, console)
        left_out = [column.name for column in self._columns if column not in shown]
        if left_out:
            note = Text(f"left out for lack of room: {', '.join(left_out)}", "dim")
            yield from note.wrap(console, options.max_width)

    def _fit(self, console: Console, total: int) -> tuple[list["_Column"], list[int]]:
        """The columns that fit a width, in characters, and their widths."""
        for most in (self._lines, MOST_LINES):
            for count in range(len(self._optional) + 1):
                shown = [column for index, column in enumerate(self._columns) if index not in self._optional[:count]]
                widths = _widths([column.natural for column in shown], [column.least for column in shown], total)
                if widths is not None and all(map(_is_low, shown, widths, repeat(most), repeat(console))):
                    return shown, widths
        # Names that fold, or lines longer than the terminal, are better than a table without its main columns.
        natural, headings = [column.natural for column in shown], [column.longest_of_heading for column in shown]
        return shown, _widths(natural, headings, total) or headings


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
    """Widths that fill ``total``, the widest columns cut first; None where not even the least ones fit."""
    room = total - _GAP * (len(natural) - 1)
    if sum(least) > room:
        return None
    limit = max(natural)
    while sum(widths := [max(low, min(wish, limit)) for wish, low in zip(natural, least, strict=True)]) > room:
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
