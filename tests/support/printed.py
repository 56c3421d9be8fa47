"""What a text report prints, and a name that tries to control the terminal."""

import io
import re
from collections.abc import Callable
from typing import Any

from qdqtool.reports.terminal import make_console

HOSTILE = "evil\x1b[31m\nline[bold]\u202e"
ESCAPED = r"evil\x1b[31m\nline[bold]\u202e"


def printed(print_report: Callable[..., None], *arguments: Any, verbose: bool = False, **options: Any) -> str:
    """The text that ``print_report(*arguments, console, **options)`` writes into a pipe."""
    file = io.StringIO()
    print_report(*arguments, make_console(file, verbose=verbose), **options)
    return file.getvalue()


def cells(text: str) -> list[list[str]]:
    """The filled cells of each line, for tables: columns are at least two spaces apart."""
    return [re.split(r" {2,}", line.strip()) for line in text.splitlines()]
