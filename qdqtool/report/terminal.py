"""The terminal: a console that respects NO_COLOR and pipes, and the escaping of strings that come from models."""

import sys
import unicodedata
from typing import TextIO

from rich.console import Console

PIPE_WIDTH = 160
_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def escape(text: str) -> str:
    """``text`` with every control, format and unassigned character spelled as a Python escape.

    A model may name a node with escape sequences, line breaks or direction marks; none of them may reach a terminal.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        char.encode("unicode_escape", "surrogatepass").decode() if unicodedata.category(char) in _UNSAFE else char
        for char in text
    )


def make_console(file: TextIO | None = None) -> Console:
    """A console on ``file`` (default stdout): colours only on a terminal, no markup, no emoji, no guessing of styles."""
    stream = file or sys.stdout
    width = None if stream.isatty() else PIPE_WIDTH
    return Console(file=stream, width=width, markup=False, emoji=False, highlight=False, soft_wrap=True)
