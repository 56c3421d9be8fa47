"""Lists that are printed in part: how much of them, and how much is left."""

from rich.console import Console

from qdqtool.reports.terminal import ReportConsole


def lists_all(console: Console) -> bool:
    """Whether lists are printed in full, as ``--verbose`` asks."""
    return isinstance(console, ReportConsole) and console.verbose


def limit(console: Console, count: int) -> int | None:
    """How many entries of a list are printed where ``count`` are by default: None, for all, with ``--verbose``."""
    return None if lists_all(console) else count


def print_rest(count: int, shown: int, console: Console, *, what: str = "more") -> None:
    """Print how many of ``count`` entries are not printed where ``shown`` are by default."""
    if count > shown and not lists_all(console):
        console.print(f"  … and {count - shown} {what} (-v lists all)")
