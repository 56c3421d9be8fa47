"""Saved reports are recognized by their keys; what is none is refused with the reason."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.saved_reports import ALL, CHECK, CONVERT, REFUSED, edited, save

from qdqtool.errors import UsageError
from qdqtool.reports.saved import stored_reports
from qdqtool.reports.saved.reading import _KINDS, read_reports
from qdqtool.reports.saved.stored_parts import Stored
from qdqtool.reports.saved.stored_reports import StoredCheck, StoredRefusedBuild
from qdqtool.reports.schemas import schema_names, schema_text

SCHEMAS = {"build-refused": "StoredRefusedBuild"} | {name: f"Stored{name.capitalize()}" for name in (*ALL, "convert")}


def test_each_report_is_recognized(tmp_path: Path):
    found = read_reports(save(tmp_path, **ALL))

    assert [report.command for report in found] == [*ALL]
    assert [report.source for report in found] == [f"{name}.json" for name in ALL]
    (refused,) = read_reports(save(tmp_path, refused=REFUSED))
    assert isinstance(refused.content, StoredRefusedBuild)


def test_the_steps_of_a_conversion_follow_it(tmp_path: Path):
    found = read_reports(save(tmp_path, report=CONVERT))

    assert [report.command for report in found] == ["convert", "quantize", "validate", "check"]
    assert found[3].source == "report.json, step check"
    assert isinstance(found[3].content, StoredCheck)


def test_files_of_the_same_name_have_their_paths(tmp_path: Path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    paths = [*save(tmp_path / "a", check=CHECK), *save(tmp_path / "b", check=CHECK)]

    assert [report.source for report in read_reports(paths)] == [str(path) for path in paths]


@pytest.mark.parametrize("name", schema_names())
def test_every_schema_is_of_one_kind_or_of_none(name: str):
    keys = msgspec.json.decode(schema_text(name)).get("required", [])
    fitting = [kind for kind in _KINDS if kind.keys <= set(keys)]
    expected = SCHEMAS.get(name)

    assert [kind.content.__name__ for kind in fitting] == ([expected] if expected else [])


@pytest.mark.parametrize("name", SCHEMAS)
def test_reports_have_every_key_that_is_read(name: str):
    schema = json.loads(schema_text(name))

    assert list(unknown_keys(getattr(stored_reports, SCHEMAS[name]), schema, schema.get("$defs", {}))) == []


def unknown_keys(content: type[Stored], schema: Mapping[str, Any], parts: Mapping[str, Any]) -> list[str]:
    """Keys that a type reads, and the schema does not promise, with the type."""
    missing = []
    for field in msgspec.structs.fields(content):
        if field.name not in schema.get("properties", {}):
            missing.append(f"{content.__name__}.{field.name}")
            continue
        text = json.dumps(schema["properties"][field.name])
        inner = [each for each in inner_types(field.type) if each.__name__ != content.__name__]
        for each in inner:
            named = [part for name, part in parts.items() if f'"#/$defs/{name}"' in text]
            missing += unknown_keys(each, named[0] if named else {}, parts)
    return missing


def inner_types(hint: Any) -> list[type[Stored]]:
    """The structs in a type hint."""
    if isinstance(hint, type) and issubclass(hint, Stored):
        return [hint]
    return [found for argument in getattr(hint, "__args__", ()) for found in inner_types(argument)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no json", "r.json is no JSON report: "),
        ("[]", "r.json is no JSON report: Expected `object`, got `array`"),
        ("{}", "r.json is no report of qdqtool"),
        ("[" * 100_000, "r.json is no JSON report: "),
        ('{"schema_version": 1, "tensors": {}}', "r.json is 'plan-file' .* which a page does not show"),
        (
            '{"schema_version": 1, "error": {"message": "no such file", "hint": null, "exit_code": 3}}',
            "r.json is the error of a command that failed, and no report: no such file",
        ),
        (
            '{"schema_version": 1, "qdqtool_version": "1", "engine": "", "manifest": "", "passed": true, "checks": []}',
            "r.json is 'verify-engine' .* which a page does not show",
        ),
        (json.dumps(CHECK | {"schema_version": 2}), "r.json has schema_version 2, and this version of qdqtool reads 1"),
        (json.dumps(CHECK | {"schema_version": True}), "r.json has schema_version True"),
        (
            json.dumps(CHECK | {"passed": "yes"}),
            r"r.json is a damaged report of `qdqtool check`: Expected `bool`, got `str` - at `\$.passed`",
        ),
        (
            json.dumps({key: value for key, value in CHECK.items() if key != "model"}),
            "r.json is a damaged report of `qdqtool check`: Object missing required field `model`",
        ),
    ],
    ids=["text", "array", "empty", "deep", "other", "failure", "engine", "later", "boolean", "type", "key"],
)
def test_what_is_no_report_is_refused(text: str, message: str, tmp_path: Path):
    path = tmp_path / "r.json"
    path.write_text(text)

    with pytest.raises(UsageError, match=message):
        read_reports([path])


def test_of_a_curve_file_the_report_of_quantize_is_told(tmp_path: Path):
    (tmp_path / "c.json").write_text('{"schema_version": 1, "points": []}')
    with pytest.raises(UsageError, match=r"c\.json is 'curve-file' .* which a page does not show") as caught:
        read_reports([tmp_path / "c.json"])
    assert caught.value.hint == "leave it out: the JSON report of quantize has the same states, and the page draws them"


def test_files_that_cannot_be_read_are_refused(tmp_path: Path):
    with pytest.raises(UsageError, match=r"absent.json cannot be read: No such file"):
        read_reports([tmp_path / "absent.json"])
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe{}")
    with pytest.raises(UsageError, match=r"bytes.json is no JSON report"):
        read_reports([tmp_path / "bytes.json"])


def test_a_step_with_the_report_of_another_is_refused(tmp_path: Path):
    swapped = edited(CONVERT, lambda report: report["steps"][2].update(report=report["steps"][0]["report"]))

    with pytest.raises(UsageError, match="step check has the report of `qdqtool quantize`"):
        read_reports(save(tmp_path, report=swapped))
