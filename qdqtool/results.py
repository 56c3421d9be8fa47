"""What every report of a job can do in Python: become plain data, and show itself as a table in a notebook."""

import dataclasses
import html
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from qdqtool.wording import escape, plural

SCHEMA_VERSION = 1
MOST_ROWS = 20
"""The number of rows of a list that a notebook shows."""


class Report:
    """The base of every report: a dataclass whose fields are the keys of the JSON report."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the report as dicts, lists, strings and numbers: the JSON of the command line, decoded."""
        found: dict[str, Any] = msgspec.json.decode(encode(self))
        return found

    def _repr_html_(self) -> str:
        """Return a table for notebooks; every text in it is escaped."""
        return as_html(type(self).__name__, self.to_dict(), getattr(self, "passed", None))


def encode(report: Any) -> bytes:
    """Return a report dataclass as JSON with a ``schema_version``.

    Field names are the keys; numbers that JSON cannot spell (NaN, infinities) become null.
    """
    fields = {field.name: getattr(report, field.name) for field in dataclasses.fields(report)}
    return msgspec.json.encode({"schema_version": SCHEMA_VERSION, **fields}, enc_hook=_encode)


def _encode(value: Any) -> Any:
    if isinstance(value, tuple | frozenset | set):
        return list(value)
    return str(value)


def as_html(title: str, report: Mapping[str, Any], passed: bool | None) -> str:
    """Return a report as an HTML table without scripts.

    Args:
        title: Its heading.
        report: Its plain data; what is None or empty is left out.
        passed: Its verdict; None for a report without one.
    """
    verdict = "" if passed is None else f": {'passed' if passed else 'failed'}"
    rows = "".join(
        f"<tr><th>{_text(name)}</th><td>{_cell(value)}</td></tr>"
        for name, value in report.items()
        if name != "schema_version" and value not in (None, "", [], {})
    )
    return f"<table><caption><b>{_text(title)}{verdict}</b></caption>{rows}</table>"


def _cell(value: Any) -> str:
    if isinstance(value, dict):
        return "<br>".join(f"{_text(name)}: {_short(inner)}" for name, inner in _told(value))
    if isinstance(value, list):
        rows = "".join(f"<li>{_row(each)}</li>" for each in value[:MOST_ROWS])
        more = f"<li>… {len(value) - MOST_ROWS} more</li>" if len(value) > MOST_ROWS else ""
        entries = f"{len(value)} {'entry' if len(value) == 1 else 'entries'}"
        return f"<details><summary>{entries}</summary><ul>{rows}{more}</ul></details>"
    return _text(value)


def _row(value: Any) -> str:
    if not isinstance(value, dict):
        return _short(value)
    return ", ".join(f"{_text(name)} {_short(inner)}" for name, inner in _told(value))


def _told(value: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    return ((name, inner) for name, inner in value.items() if inner not in (None, "", [], {}))


def _short(value: Any) -> str:
    """Return a value in one line: of what has several parts, the number of them."""
    if isinstance(value, list) and all(isinstance(each, int | float) for each in value) and len(value) <= 8:
        return f"[{', '.join(map(_text, value))}]"
    return plural(len(value), "part") if isinstance(value, list | dict) else _text(value)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return html.escape(escape(f"{value:.6g}" if isinstance(value, float) else str(value)))
