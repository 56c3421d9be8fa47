"""The terminal: a console that respects NO_COLOR and pipes, and the escaping of strings that come from models."""

import sys
import unicodedata
from typing import TextIO

from rich.console import Console
from rich.table import Table

PIPE_WIDTH = 160
_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def escape(text: str) -> str:
    """``text`` with every control, format and unassigned character spelled as a Python escape.

    A model may name a node with escape sequences, line breaks or direction marks; none of them may reach a terminal.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        char.encode("unicode_escape", "surrogatepass").decode() if is_unsafe(char) else char for char in text
    )


def is_unsafe(char: str) -> bool:
    """Whether a character may not reach a terminal: control, format, surrogate, private and unassigned characters."""
    return unicodedata.category(char) in _UNSAFE


def make_console(file: TextIO | None = None) -> Console:
    """A console on ``file`` (default stdout): colours only on a terminal; no markup, emoji or guessed styles."""
    stream = file or sys.stdout
    width = None if stream.isatty() else PIPE_WIDTH
    return Console(file=stream, width=width, markup=False, emoji=False, highlight=False, soft_wrap=True)


def plural(count: int, noun: str) -> str:
    """``count`` with its noun: ``1 weight``, ``2 weights``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def human_bytes(count: int) -> str:
    """A size in the largest unit that leaves at least one digit before the point: ``1.5 MB`` is 1,500,000 bytes."""
    size = float(count)
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{count} bytes" if unit == "bytes" else f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} GB"


def sizes_line(before: int, after: int) -> str:
    """File sizes before and after, with their ratio."""
    ratio = f" ({after / before:.0%})" if before else ""
    return f"size {human_bytes(before)} -> {human_bytes(after)}{ratio}"


def make_table(*columns: str) -> Table:
    """A plain table: bold headings, no lines, long cells folded."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 3, 0, 0))
    for column in columns:
        table.add_column(column, overflow="fold")
    return table
