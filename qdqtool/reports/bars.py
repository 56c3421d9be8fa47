"""A table with a bar in each row on a terminal; bars begin at 0."""

from collections.abc import Iterator
from dataclasses import dataclass

from rich.bar import Bar
from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions
from rich.table import Table
from rich.text import Text

from qdqtool.reports.terminal import PIPE_WIDTH

LEAST_WIDTH = 60
"""Smallest width of a terminal, in characters, for bars."""

_SHORTEST, _LONGEST = 16, 36
"""Smallest and largest width of the bars: shorter bars hide differences, and longer bars show no further ones."""
_LEAST_NAME = 20
"""Smallest width of a shortened name: shorter names are not recognizable."""
_GAP = 2
_COLOR = "cyan"


@dataclass(frozen=True, slots=True)
class _Row:
    name: str
    value: float
    texts: tuple[str, ...]
    figures: tuple[str, ...]


class BarTable:
    """A table with names, a few words about each name, bars, and the figures that the bars show.

    Bars are drawn on a terminal of at least :data:`LEAST_WIDTH` characters. They consist of block characters, or of
    ``#`` if the encoding has no block characters. Otherwise, or if there is nothing to compare, the table has no bars.

    Args:
        name: Heading of the first column.
        texts: Headings of the columns between names and bars.
        bars: Heading of the bars.
        figures: Headings of the columns to the right of the bars.
        of_whole: Whether a bar of full width is 1, for values that are shares; otherwise it is the largest value.
        shortens: Whether the middle of a long name may be cut so that bars fit; otherwise bars are left out.
    """

    def __init__(
        self,
        name: str,
        *,
        texts: tuple[str, ...],
        bars: str,
        figures: tuple[str, ...],
        of_whole: bool = False,
        shortens: bool = True,
    ) -> None:
        self._name, self._texts, self._bars, self._figures = name, texts, bars, figures
        self._of_whole, self._shortens = of_whole, shortens
        self._rows: list[_Row] = []

    def add_row(self, name: str, value: float, texts: tuple[str, ...], figures: tuple[str, ...]) -> None:
        """Add a row.

        Args:
            name: Its name, without characters that may not reach a terminal.
            value: The value of its bar, at least 0.
            texts: A cell for each column between name and bar.
            figures: A cell for each column to the right of the bar.
        """
        self._rows.append(_Row(name, value, texts, figures))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Table]:
        names, bars = self._room(console, options.max_width)
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column(self._name, overflow="fold", no_wrap=bars > 0)
        for heading in self._texts:
            table.add_column(heading)
        if bars:
            end = "100%".rjust(bars - cell_len(self._bars)) if self._of_whole else ""
            table.add_column(self._bars + end, no_wrap=True)
        for heading in self._figures:
            table.add_column(heading, justify="right", no_wrap=True)
        ellipsis = "..." if options.ascii_only else "…"
        for row in self._rows:
            name = shortened(row.name, names, ellipsis) if bars else row.name
            bar = (_bar(row.value / self._full, bars, ascii_only=options.ascii_only),) if bars else ()
            table.add_row(Text(name), *map(Text, row.texts), *bar, *row.figures)
        yield table

    @property
    def _full(self) -> float:
        """The value of a bar of full width."""
        return 1.0 if self._of_whole else max((row.value for row in self._rows), default=0.0)

    def _room(self, console: Console, total: int) -> tuple[int, int]:
        """Return the widths of names and of bars in characters; both are 0 without bars."""
        if not console.is_terminal or not LEAST_WIDTH <= total < PIPE_WIDTH:
            return 0, 0
        if not self._full or not any(row.value for row in self._rows) or (len(self._rows) < 2 and not self._of_whole):
            return 0, 0
        names = max(cell_len(each) for each in (self._name, *(row.name for row in self._rows)))
        cells = zip((*self._texts, *self._figures), *((*row.texts, *row.figures) for row in self._rows), strict=True)
        others = [max(map(cell_len, column)) for column in cells]
        left = total - sum(others) - _GAP * (len(others) + 1)
        bars = max(_SHORTEST, cell_len(self._bars) + (len(" 100%") if self._of_whole else 0))
        least = min(names, _LEAST_NAME) if self._shortens else names
        if left < least + bars:
            return 0, 0
        names = min(names, left - bars)
        return names, min(left - names, max(_LONGEST, bars))


def _bar(share: float, width: int, *, ascii_only: bool) -> Bar | Text:
    if ascii_only:
        return Text("#" * round(width * share), _COLOR)
    return Bar(1, 0, share, width=width, color=_COLOR)


def shortened(text: str, width: int, ellipsis: str = "…") -> str:
    """Return a text of at most ``width`` characters on a terminal; the middle of a longer text is cut."""
    if cell_len(text) <= width:
        return text
    kept = width - len(ellipsis)
    # A character may have width 2, so that the end may be one shorter. A character of width 0 would combine with the
    # ellipsis.
    end = text[-(kept // 2) :] if kept > 1 else ""
    while end and (cell_len(end) > kept // 2 or not cell_len(end[0])):
        end = end[1:]
    return set_cell_size(text, kept - kept // 2).rstrip() + ellipsis + end
