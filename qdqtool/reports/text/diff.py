"""Print the changes of Q/DQ between two models on a terminal."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from rich.console import Console
from rich.text import Text

from qdqtool.errors import escape, plural
from qdqtool.models.diff.parameters import Change
from qdqtool.models.diff.report import ChangedPair, DiffReport, DisturbedReader, MovedPair, PairInfo
from qdqtool.reports.blocks import scoped
from qdqtool.reports.terminal import limit, print_rest

SHOWN = 50
"""Largest number of printed pairs of one kind; the others are counted."""

READERS = 4
"""Largest number of named readers of a pair."""

Each = TypeVar("Each")


def render(report: DiffReport, console: Console) -> None:
    """Print removed, changed, moved and added pairs, then a summary in one line."""
    console.print(Text(f"{escape(report.before)} -> {escape(report.after)}", "bold"))
    for change in report.versions:
        console.print(f"  {escape(change.what)}: {change.before} -> {change.after}")
    _list(report.removed, lambda pair: Text.assemble(("  - ", "bold red"), _pair(pair)), console)
    _list(report.changed, _changed, console)
    _list(report.moved, _moved, console)
    _list(report.added, lambda pair: Text.assemble(("  + ", "bold green"), _pair(pair)), console)
    _list(report.disturbed, _disturbed, console)
    if report.unmatched:
        console.print(f"  {plural(report.unmatched, 'other node')} of the first model not found in the second")
    if not report.pairs_before:
        swapped = ": are the models swapped?" if report.pairs_after else ""
        console.print(f"  nothing to preserve: the first model has no quantized tensor{swapped}")
    console.print(_summary(report))


def _list(items: Sequence[Each], line: Callable[[Each], Text], console: Console) -> None:
    for item in items[: limit(console, SHOWN)]:
        console.print(line(item))
    print_rest(len(items), SHOWN, console)


def _pair(pair: PairInfo) -> str:
    return f"{_place(pair)}: {pair.type} {pair.granularity} {pair.form}, scale {_scale(pair)}, read by {_readers(pair)}"


def _scale(pair: PairInfo) -> str:
    if pair.scale_min is None or pair.scale_max is None:
        return "computed"
    low, high = f"{pair.scale_min:.6g}", f"{pair.scale_max:.6g}"
    return low if low == high else f"{low} to {high}"


def _place(pair: PairInfo) -> str:
    return escape(scoped(pair.tensor, pair.graph))


def _readers(pair: PairInfo) -> str:
    shown = ", ".join(escape(reader) for reader in pair.readers[:READERS])
    more = len(pair.readers) - READERS
    return f"{shown} and {more} more" if more > 0 else shown


def _changed(each: ChangedPair) -> Text:
    words = ", ".join(map(_change, each.changes))
    return Text.assemble(("  ~ ", "bold yellow"), f"{_place(each.pair)} (read by {_readers(each.pair)}): {words}")


def _change(change: Change) -> str:
    ratio = ""
    if change.ratio is not None:
        low, high = (f"{value:.6g}" for value in change.ratio)
        ratio = f" (x {low})" if low == high else f" (x {low} to {high})"
    return f"{change.what} {change.before} -> {change.after}{ratio}"


def _moved(each: MovedPair) -> Text:
    return Text.assemble(
        ("  > ", "bold cyan"), f"{_pair(each.before)}; now at {_place(each.after)}, read by {_readers(each.after)}"
    )


def _disturbed(each: DisturbedReader) -> Text:
    where = escape(scoped(each.reader, each.graph))
    now = "is not found in the second model" if each.after is None else f"reads {_steps(each.after)} now"
    return Text.assemble(("  ! ", "bold red"), f"{where}, which read {_steps(each.before)}, {now}")


def _steps(pairs: tuple[PairInfo, ...]) -> str:
    """Return the pairs in the order in which data passes them."""
    shown = ", then ".join(f"{pair.type} of scale {_scale(pair)}" for pair in reversed(pairs))
    return shown or "a float tensor"


def _summary(report: DiffReport) -> Text:
    words = [
        f"{plural(report.pairs_before, 'quantized tensor')} before, {report.pairs_after} after",
        f"{report.same} equal",
        f"{len(report.removed)} removed",
        f"{len(report.changed)} changed",
        f"{len(report.moved)} moved",
        f"{len(report.added)} added",
    ]
    if report.disturbed:
        words.append(f"{plural(len(report.disturbed), 'reader')} with other values")
    return Text(", ".join(words), "bold green" if report.preserved else "bold red")
