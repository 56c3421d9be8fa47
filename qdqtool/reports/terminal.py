"""The terminal: a console that respects NO_COLOR and pipes, and the escaping of strings that come from models."""

import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any, TextIO

from rich.console import Console
from rich.text import Text

from qdqtool.errors import escape, human_bytes, is_unsafe
from qdqtool.reports.table import MOST_LINES, FittedTable

__all__ = [
    "PIPE_WIDTH",
    "ReportConsole",
    "escape",
    "human_bytes",
    "human_count",
    "is_unsafe",
    "make_console",
    "make_table",
    "print_unbroken",
    "sizes_line",
]

PIPE_WIDTH = 1 << 20
"""In a pipe a row of a table is one line, which ``grep`` finds as a whole, unless COLUMNS asks for a width."""
_HANGING = 2
"""Characters that the second and later lines of a long line are indented by, beyond the first."""


class ReportConsole(Console):
    """The console that reports are printed on.

    Args:
        file: Where to print.
        verbose: Whether lists are printed in full.
        width: Characters in a line; None for those of the terminal, or of COLUMNS.
    """

    def __init__(self, file: TextIO, *, verbose: bool, width: int | None) -> None:
        super().__init__(file=file, width=width, markup=False, emoji=False, highlight=False, soft_wrap=True)
        self.verbose = verbose

    def print(self, *objects: Any, **options: Any) -> None:
        """Print as rich does; on a terminal, a line that is too long is broken between words, and indented."""
        if len(objects) == 1 and isinstance(objects[0], str | Text) and self.width < PIPE_WIDTH:
            style = options.pop("style", "") or ""
            objects = (
                Text("\n").join(_broken(Text(objects[0], style) if isinstance(objects[0], str) else objects[0], self)),
            )
        super().print(*objects, **options)


def make_console(file: TextIO | None = None, *, verbose: bool = False) -> ReportConsole:
    """A console on ``file`` (default stdout): colours only on a terminal; no markup, emoji or guessed styles."""
    stream = file or sys.stdout
    has_width = stream.isatty() or os.environ.get("COLUMNS", "").isdigit()
    return ReportConsole(stream, verbose=verbose, width=None if has_width else PIPE_WIDTH)


def _broken(text: Text, console: Console) -> Iterator[Text]:
    for line in text.split("\n", allow_blank=True):
        indent = len(line.plain) - len(line.plain.lstrip(" "))
        if line.cell_len <= console.width or indent + _HANGING >= console.width // 2:
            yield line
            continue
        parts = line[indent:].wrap(console, console.width - indent - _HANGING)
        for index, part in enumerate(parts):
            part.rstrip()
            yield Text(" " * (indent + (_HANGING if index else 0))).append_text(part)


def print_unbroken(what: str | FittedTable, console: Console) -> None:
    """Print lines that a program may read, such as ``grep``: only on a terminal are they broken to fit.

    Args:
        what: A text, or a table whose rows become one line each.
        console: Where to print. In a pipe its width, that of COLUMNS, is left aside.
    """
    width = console.width
    if not console.is_terminal:
        # rich takes no width beyond that of its console as an option of print.
        console.width = PIPE_WIDTH
    console.print(what)
    console.width = width


def human_count(count: int) -> str:
    """A number in the largest unit that leaves at least one digit before the point: ``1.5 M`` is 1,500,000."""
    size = float(count)
    for unit in ("", " k", " M"):
        if size < 1000:
            return f"{size:.3g}{unit}"
        size /= 1000
    return f"{size:.3g} G"


def sizes_line(before: int, after: int) -> str:
    """File sizes before and after, with their ratio."""
    ratio = f" ({after / before:.0%})" if before else ""
    return f"size {human_bytes(before)} -> {human_bytes(after)}{ratio}"


def make_table(*columns: str, optional: Sequence[str] = (), lines: int = MOST_LINES) -> FittedTable:
    """A table that fits its console: columns of ``optional`` are left out where a cell would take more lines."""
    return FittedTable(*columns, optional=optional, lines=lines)
