"""What is printed, and what stands in the documentation: tables and what has to be said beside them."""

import re
from collections.abc import Callable, Sequence

from benchmarks.comparison import bars, growth, tables
from benchmarks.comparison.contestants import HALF
from benchmarks.comparison.growth import Growth
from benchmarks.comparison.measured import Result

Table = Callable[[Sequence[str], Sequence[Sequence[str]]], str]
_FOLDERS = re.compile(r"(?<![\w.])(?:/[^\s/:'\"]+)+/")
"""Of a path in a message: where somebody keeps files says nothing here."""


def parts(table: Table, results: Sequence[Result], grown: Sequence[Growth], clock: str) -> dict[str, str]:
    """Everything, by the name of its place in the page; arguments as of :func:`comparison`."""
    half = [one for one in results if one.group == HALF]
    models = {one.model for one in results if one.group not in ("", HALF)}
    others = [one for one in results if one.group != HALF and one.model in models]
    found = {
        "peers": others and comparison(table, others, clock),
        "half": half and halves(table, half),
        "growth": grown and scaling(table, grown),
    }
    return {name: text for name, text in found.items() if text}


def comparison(table: Table, results: Sequence[Result], clock: str) -> str:
    """Everything about all results.

    Args:
        table: How columns and lines become text.
        results: Of any models.
        clock: ``wall`` or ``cpu``: which time bars are judged on.
    """
    parts = [
        _conditions({one.versions for one in results}, [one.load for one in results if one.load is not None]),
        table(tables.SUMMARY_COLUMNS, tables.summary(results)),
        table(tables.BAR_COLUMNS, tables.bar_rows(bars.judge(results, clock))),
        table(tables.COLUMNS, tables.rows(results)),
        "\n".join(f"- {line}" for line in _notes(results)),
    ]
    return "\n\n".join(part for part in parts if part)


def halves(table: Table, results: Sequence[Result]) -> str:
    """The same about conversions to half precision."""
    notes = "\n".join(f"- {line}" for line in _notes(results))
    conditions = " / ".join(sorted({one.versions for one in results if one.versions}))
    return "\n\n".join(filter(None, [conditions, table(tables.HALF_COLUMNS, tables.half_rows(results)), notes]))


def scaling(table: Table, grown: Sequence[Growth]) -> str:
    """The same about what grows with the number of samples."""
    conditions = _conditions({one.versions for one in grown}, [one.load for one in grown])
    return f"{conditions}\n\n{table(growth.COLUMNS, [one.row for one in grown])}"


def _conditions(versions: set[str], loads: Sequence[float]) -> str:
    timed = f"; load average before timing at most {max(loads):.1f}" if loads else "; nothing timed"
    return " / ".join(sorted(filter(None, versions))) + timed


def _notes(results: Sequence[Result]) -> list[str]:
    return [f"{one.model}, {one.label}: {_FOLDERS.sub('', note)}" for one in results for note in _of(one)]


def _of(result: Result) -> list[str]:
    if result.failed:
        return [f"SKIPPED: {result.failed}"]
    engine = [f"not built: {result.engine.reason}"] if result.engine and not result.engine.built else []
    return [*result.notes, *engine]
