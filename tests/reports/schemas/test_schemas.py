"""Schemas say something of every key, and refuse what is not declared.

After a change of a report or file that is meant, ``make generated`` writes them again: read what git shows.
"""

import ast
import copy
import dataclasses
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator
from support.json_schemas import FILES, Schema, closed, reports, schemas
from support.paths import ROOT
from support.printed_json import check_file, check_report, check_stdout, faults

from qdqtool import __main__ as entry
from qdqtool.cli import command
from qdqtool.reports.failure import Failure, FailureReport
from qdqtool.reports.json import render
from qdqtool.reports.schemas import schema_names, schema_text
from qdqtool.reports.text import RENDERERS

STORED = ROOT / "qdqtool" / "reports" / "schemas"
CONTENT = {"qdqtool/quantization/ranges/file.py": "qdqtool/quantization/ranges/file_content.py"}
"""Where the type of a file stands that another module writes."""
WITHOUT_VERSION = {"qdqtool/linting/settings.py"}
FAILURE = {"schema_version": 1, "error": {"message": "m", "hint": None, "exit_code": 2}}


def objects(name: str) -> Iterator[tuple[str, Schema]]:
    """Every object of a schema with its name."""
    schema = schemas()[name]
    yield from ((title, each) for title, each in [("", schema), *schema.get("$defs", {}).items()])


@pytest.mark.parametrize("name", schema_names())
def test_the_command_prints_two_spaces_an_indent(name: str):
    assert schema_text(name) == json.dumps(schemas()[name], indent=2)


@pytest.mark.parametrize("name", schema_names())
def test_each_is_a_schema_that_describes_every_key(name: str):
    schema = schemas()[name]
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    undescribed = [
        f"{title}.{key}"
        for title, each in objects(name)
        for key, value in each.get("properties", {}).items()
        if not value.get("description")
    ]
    assert undescribed == [], "the docstring of the class says nothing of these attributes"
    assert [title for title, each in objects(name) if not each.get("description")] == []


@pytest.mark.parametrize("name", reports())
def test_a_report_has_every_key_and_may_get_new_ones(name: str):
    for title, each in objects(name):
        if "properties" in each:
            assert sorted(each["required"]) == sorted(each["properties"]), title
            assert "additionalProperties" not in each, title


@pytest.mark.parametrize("name", schema_names())
def test_no_key_takes_any_value(name: str):
    """Except what other programs decide: constants of plans, parameters of steps, ... ."""
    free = {
        f"{title}.{key}"
        for title, each in objects(name)
        for key, value in each.get("properties", {}).items()
        if not {"type", "anyOf", "$ref", "enum", "const"} & value.keys()
    }
    assert free == set()


def test_every_report_of_every_command_has_a_schema():
    """A schema comes from the type that a text renderer takes."""
    calls = [node for text in sources("cli") for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    emitted = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "emit"]
    printed = {call.args[2].value for call in emitted if isinstance(call.args[2], ast.Constant)}
    assert len(printed) > 20
    assert printed <= RENDERERS.keys()


def test_every_file_with_a_version_has_a_schema():
    """A module that counts versions of a format writes or reads one."""
    formats = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "qdqtool").rglob("*.py")
        if re.search(r"^[A-Z]+_VERSION = \d", path.read_text(), re.MULTILINE)
    }
    content = {f"{found.content.__module__.replace('.', '/')}.py" for found in FILES.values()}
    assert {CONTENT.get(path, path) for path in formats} - {"qdqtool/results.py"} == content - WITHOUT_VERSION


def sources(package: str) -> list[str]:
    return [path.read_text() for path in sorted((ROOT / "qdqtool" / package).rglob("*.py"))]


def test_a_build_gives_every_key_of_the_manifest():
    tree = ast.parse((ROOT / "qdqtool/engines/build/manifest.py").read_text())
    function = next(each for each in tree.body if isinstance(each, ast.FunctionDef) and each.name == "describe_build")
    (made,) = (each.value for each in function.body if isinstance(each, ast.Return))
    assert isinstance(made, ast.Call)
    given = {keyword.arg for keyword in made.keywords}
    assert given == {each.name for each in dataclasses.fields(FILES["manifest-file"].content)}


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"error": {"message": "m", "hint": None}}, "'exit_code' is a required property"),
        (
            {"error": {"message": "m", "hint": None, "exit_code": "2"}},
            "$.error.exit_code: '2' is not of type 'integer'",
        ),
        ({"error": {"message": None, "hint": None, "exit_code": 2}}, "None is not of type 'string'"),
        ({"extra": 1}, "Additional properties are not allowed ('extra' was unexpected)"),
        ({"schema_version": 2}, "1 was expected"),
    ],
)
def test_a_report_that_does_not_fit_is_told(change: dict[str, Any], place: str):
    assert faults(FAILURE, "failure") == []
    (found,) = faults(FAILURE | change, "failure")
    assert place in found


def test_readers_take_keys_that_a_later_version_adds():
    later = copy.deepcopy(FAILURE) | {"extra": 1}
    assert Draft202012Validator(schemas()["failure"]).is_valid(later)
    assert not Draft202012Validator(closed(schemas()["failure"])).is_valid(later)


def test_what_tests_render_and_print_is_held_to_the_schemas():
    report = FailureReport(Failure("m", None, 2))
    check_report(report, render(report))
    with pytest.raises(AssertionError, match="does not fit the schema 'failure'"):
        check_report(report, render(report).replace("exit_code", "code"))
    with pytest.raises(AssertionError, match="Failure has no schema"):
        check_report(report.error, "{}")
    check_file("report.json", render(report).encode())
    with pytest.raises(AssertionError, match=r"report\.json is written with JSON of no schema: .*error"):
        check_file("report.json", render(report).replace("exit_code", "code").encode())
    with pytest.raises(AssertionError, match="'manifest-file'"):
        check_file("e.engine.manifest.json", render(report).encode())
    check_file("other.json", b"{}")
    check_file("other.json", b"{")
    check_stdout(["check", "m.onnx", "--output-format=json"], render(report))
    check_stdout(["check", "m.onnx"], '{"text": "that begins with a brace"}')
    with pytest.raises(AssertionError, match="printed JSON of no schema"):
        check_stdout(["check", "--output-format", "json"], '{"schema_version": 1, "passed": true}')


def test_numbers_that_json_cannot_spell_are_null_and_declared_so():
    found = schemas()["check"]["$defs"]["BoundaryResult"]["properties"]
    assert found["max_steps"]["type"] == ["number", "null"]
    assert found["elements"]["type"] == "integer"
    limits = schemas()["plan-file"]["$defs"]["PlanEntry"]["properties"]["axis"]
    assert {"type": "null"} in limits["anyOf"]


def run(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(command, words)
    return done.exit_code, done.output


def test_the_command_lists_them_and_prints_one():
    code, listed = run("schema")
    assert code == 0
    assert [line.split()[0] for line in listed.splitlines()[1:-1]] == list(schema_names())
    code, printed = run("schema", "check")
    assert (code, json.loads(printed)) == (0, schemas()["check"])
    assert printed.rstrip("\n") == schema_text("check")
    assert printed.isascii()


def test_a_name_that_does_not_exist_is_a_usage_error(capsys: pytest.CaptureFixture[str]):
    assert entry._run(["schema", "chek"]) == 2
    told = capsys.readouterr()
    assert (told.out, told.err) == (
        "",
        "error: there is no schema 'chek'; did you mean 'check'?\nhint: `qdqtool schema` lists them\n",
    )


def test_the_package_needs_nothing_of_the_tests(tmp_path: Path):
    """What the package reads are files beside its module, also where that is no checkout."""
    assert {path.suffix for path in STORED.iterdir() if path.is_file()} == {".json", ".py"}
