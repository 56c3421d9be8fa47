"""The base of the reports of jobs: conversion to plain data, and to a table in a notebook."""

import dataclasses
import functools
import html
import math
import typing
from collections.abc import Callable, Iterator, Mapping
from types import NoneType
from typing import Any, Literal, TypeVar

import msgspec

from qdqtool.errors import escape

__version__ = "0.1.0"
SCHEMA_VERSION = 1
T = TypeVar("T")
MOST_ROWS = 20
"""Largest number of rows of a list that a notebook shows."""
MOST_CHARACTERS = 110
"""Largest number of characters of an object in a printed report."""
MOST_NUMBERS = 8
"""Largest number of numbers, such as extents of a shape, in one line."""


Question = Literal["rules", "numbers", "engine"]
"""The question of a judgement: are the rules kept, are the numbers near the float model, is the engine built?"""
VerdictWord = Literal["passed", "warning", "failed"]
"""``failed``: a gate is missed. ``warning``: all gates hold, but a user should know something before deployment."""


@dataclasses.dataclass(frozen=True, slots=True)
class Judgement:
    """The answer of one report to one question.

    Attributes:
        question: The question.
        state: The answer; ``skipped`` if a step was not requested.
        detail: The fact and its consequence, in one line.
        hint: The option or command that changes the answer; empty if none is known.
        source: The file of the report; empty for a report of this run.
    """

    question: Question
    state: Literal["passed", "warning", "failed", "skipped"]
    detail: str
    hint: str = ""
    source: str = ""


def exit_code(word: VerdictWord, *, strict: bool) -> int:
    """Return the exit code of a verdict; with ``strict``, a warning has exit code 1 too."""
    return int(word == "failed" or (strict and word == "warning"))


class Report:
    """The base of every report: a dataclass whose fields are the keys of the JSON report."""

    __slots__ = ()

    def document(self) -> dict[str, Any]:
        """Return the keys of the JSON report with their values; a report that contains reports overrides this."""
        return {"schema_version": SCHEMA_VERSION, "qdqtool_version": __version__, **_fields(self)}

    def to_dict(self) -> dict[str, Any]:
        """Return the report as dicts, lists, strings and numbers: the JSON of the command line, decoded."""
        found: dict[str, Any] = msgspec.json.decode(encode(self))
        return found

    def notebook_rows(self) -> dict[str, Any]:
        """Return the plain data that a notebook shows; a report with deeply nested facts overrides this."""
        return self.to_dict()

    def __str__(self) -> str:
        """Return one line for each fact; a list is shown by its length, and a long line is cut."""
        facts = (f"  {name}: {_brief(value)}" for name, value in _filled_items(self.notebook_rows()))
        return "\n".join([type(self).__name__, *(fact for fact in facts if not fact.startswith(_VERSIONS))])

    def _repr_html_(self) -> str:
        """Return a table for notebooks; every text in it is escaped."""
        return as_html(type(self).__name__, self.notebook_rows(), getattr(self, "passed", None))


def encode(report: Any) -> bytes:
    """Return a report dataclass as JSON with a ``schema_version``.

    Field names are the keys; numbers that JSON cannot represent (NaN, infinities) become null.
    """
    document = (
        report.document() if isinstance(report, Report) else {"schema_version": SCHEMA_VERSION, **_fields(report)}
    )
    return encode_plain(document)


def encode_plain(document: Any) -> bytes:
    """Return dicts, lists, dataclasses and structs as JSON; a name that is no UTF-8 becomes the text of messages."""
    try:
        return msgspec.json.encode(document, enc_hook=_encode)
    except UnicodeEncodeError:
        return msgspec.json.encode(_in_utf8(msgspec.to_builtins(document, enc_hook=_encode)))


def _in_utf8(value: Any) -> Any:
    if isinstance(value, dict):
        return {_in_utf8(key): _in_utf8(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_in_utf8(each) for each in value]
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value


def _fields(report: Any) -> dict[str, Any]:
    return {field.name: getattr(report, field.name) for field in dataclasses.fields(report)}


def _encode(value: Any) -> Any:
    if isinstance(value, tuple | frozenset | set):
        return list(value)
    return str(value)


def decode(document: Mapping[str, Any], kind: type[T], hook: Callable[[type, Any], Any] | None = None) -> T:
    """Return the report that a JSON document was made of; null becomes NaN for a field of type float.

    Args:
        document: The keys of the JSON report; keys that ``kind`` does not have are ignored.
        kind: The dataclass.
        hook: Returns the value for a type that msgspec does not know; it gets the type and the decoded value.

    Raises:
        msgspec.ValidationError: A key is missing, or a value has another type.
    """
    return msgspec.convert(_with_nan(document, kind), kind, dec_hook=hook)


def _with_nan(value: Any, hint: Any) -> Any:
    """Return a value with NaN in place of each null whose declared type is ``float`` without None."""
    if value is None:
        return math.nan if hint is float else None
    if not isinstance(value, dict | list):
        return value
    options = typing.get_args(hint)
    if NoneType in options:
        hint = next(each for each in options if each is not NoneType)
        options = typing.get_args(hint)
    if isinstance(value, list):
        return [_with_nan(each, options[0]) for each in value] if options else value
    if options:
        return {key: _with_nan(each, options[-1]) for key, each in value.items()}
    hints = _hints(hint) if isinstance(hint, type) and dataclasses.is_dataclass(hint) else {}
    return {key: _with_nan(each, hints.get(key)) for key, each in value.items()}


_hints = functools.cache(typing.get_type_hints)


def as_html(title: str, report: Mapping[str, Any], passed: bool | None) -> str:
    """Return a report as an HTML table without scripts.

    Args:
        title: Its heading.
        report: Its plain data; values that are None or empty are left out.
        passed: Its verdict; None for a report without one.
    """
    verdict = "" if passed is None else f": {'passed' if passed else 'failed'}"
    rows = "".join(
        f"<tr><th>{_text(name)}</th><td>{_cell(value)}</td></tr>"
        for name, value in report.items()
        if name not in {"schema_version", "qdqtool_version"} and value not in (None, "", [], {})
    )
    return f"<table><caption><b>{_text(title)}{verdict}</b></caption>{rows}</table>"


_VERSIONS = ("  schema_version:", "  qdqtool_version:")


def _brief(value: Any, *, is_inner: bool = False) -> str:
    if isinstance(value, dict) and not is_inner:
        facts = ", ".join(f"{name} {_brief(inner, is_inner=True)}" for name, inner in _filled_items(value))
        return facts if len(facts) <= MOST_CHARACTERS else f"{facts[:MOST_CHARACTERS]}…"
    if isinstance(value, list | dict):
        return f"{len(value)} {'entry' if len(value) == 1 else 'entries'}"
    return html.unescape(_text(value))


def _cell(value: Any) -> str:
    """Return a value as HTML; a dict has a line for each entry."""
    if isinstance(value, dict):
        return "<br>".join(f"{_text(name)}: {_inner(inner)}" for name, inner in _filled_items(value))
    return _inner(value)


def _inner(value: Any) -> str:
    if isinstance(value, dict):
        return f"({', '.join(f'{_text(name)} {_inner(inner)}' for name, inner in _filled_items(value))})"
    if not isinstance(value, list):
        return _text(value)
    if all(isinstance(each, int | float) for each in value) and len(value) <= MOST_NUMBERS:
        return f"[{', '.join(map(_text, value))}]"
    rows = "".join(f"<li>{_row(each)}</li>" for each in value[:MOST_ROWS])
    more = f"<li>… {len(value) - MOST_ROWS} more</li>" if len(value) > MOST_ROWS else ""
    return f"<details><summary>{_brief(value)}</summary><ul>{rows}{more}</ul></details>"


def _row(value: Any) -> str:
    if not isinstance(value, dict):
        return _inner(value)
    return ", ".join(f"{_text(name)} {_inner(inner)}" for name, inner in _filled_items(value))


def _filled_items(value: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    return ((name, inner) for name, inner in value.items() if inner not in (None, "", [], {}))


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return html.escape(escape(f"{value:.6g}" if isinstance(value, float) else str(value)))
