"""Hold every JSON report and file that a test makes to its schema, with no key that the schema does not declare."""

import json
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator

from support.json_schemas import closed, reports, schemas


@cache
def strict(name: str) -> Draft202012Validator:
    """A validator of one schema that also refuses keys which are not declared."""
    return Draft202012Validator(closed(schemas()[name]))


def faults(document: Any, name: str) -> list[str]:
    """What a schema has against a document, with the place."""
    return [f"{error.json_path}: {error.message}" for error in strict(name).iter_errors(document)]


def check_report(report: Any, text: str) -> None:
    """Check what a report was rendered to against the schema of its type."""
    if not type(report).__module__.startswith("qdqtool"):
        return  # a report that a test made up
    names = {kind: name for name, kind in reports().items()}
    assert type(report) in names, f"{type(report).__name__} has no schema: it has no renderer in qdqtool/reports/text"
    found = faults(json.loads(text), names[type(report)])
    assert not found, f"the report does not fit the schema '{names[type(report)]}': {found}"


def check_file(name: str, data: bytes) -> None:
    """Check a JSON file that is written: with a ``schema_version``, it fits one of the schemas.

    Args:
        name: Its name; that of a manifest tells its schema.
        data: Its content.
    """
    try:
        document = json.loads(data)
    except ValueError:
        return  # bytes that a test made up
    if not isinstance(document, dict) or "schema_version" not in document:
        return  # ranges in the format of another tool
    names = ["manifest-file"] if name.endswith(".manifest.json") else list(schemas())
    found = {each: faults(document, each) for each in names}
    assert [] in found.values(), f"{name} is written with JSON of no schema: {_nearest(found.items())}"


def check_stdout(words: Sequence[str], out: str) -> None:
    """Check what another process printed on stdout; the command tells which reports it can print."""
    if "--output-format=json" not in "=".join(words) or not out.startswith("{"):
        return
    document = json.loads(out)
    found = {name: faults(document, name) for name in _printed_by(words)}
    assert [] in found.values(), f"{' '.join(words)} printed JSON of no schema: {_nearest(found.items())}"


def _printed_by(words: Sequence[str]) -> list[str]:
    return [name for name in reports() if name == "failure" or any(f"{name}-".startswith(f"{word}-") for word in words)]


def _nearest(found: Iterable[tuple[str, list[str]]]) -> tuple[str, list[str]]:
    return min(found, key=lambda each: len(each[1]))
