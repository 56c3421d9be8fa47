"""Names that scripts rely on (``docs/reference/files.md``): one that is gone or added shows here.

After a change that is meant, write the file again, and say in the changelog what is gone:

    QDQTOOL_WRITE_GOLDEN=1 pytest tests/reports/schemas
"""

import importlib
import json
import os
import re
from typing import Any

import click
from support.paths import ROOT

import qdqtool
from qdqtool import __main__ as entry
from qdqtool import errors, interop
from qdqtool.cli import command
from qdqtool.linting import rules
from qdqtool.reports.schemas import schema_names

GOLDEN = ROOT / "tests" / "golden" / "stability.json"
PAGE = ROOT / "docs" / "reference" / "files.md"
EVIDENCE = ROOT / "docs" / "developers" / "measurements.md"
CONTEXT = click.Context(command)


def names() -> dict[str, Any]:
    """Everything that the page promises to keep, by kind."""
    dialects = [f"qdqtool.interop.{name}" for name in interop.__all__ if name.islower()]
    modules = [qdqtool, errors, interop, *(importlib.import_module(name) for name in dialects if is_module(name))]
    return {
        "rules": {rule.code: rule.name for rule in rules.catalogue()},
        "exit_codes": {name: value for name, value in vars(entry).items() if name.startswith("EXIT_")},
        "commands": {name: options(name) for name in command.list_commands(CONTEXT)},
        "python": {module.__name__: sorted(module.__all__) for module in modules},
        "schemas": list(schema_names()),
    }


def is_module(name: str) -> bool:
    return (ROOT / f"{name.replace('.', '/')}.py").is_file()


def options(name: str) -> dict[str, list[str]]:
    """The options of a command by their spelling, with the values of those that have a choice."""
    found = command.get_command(CONTEXT, name)
    assert found is not None
    return {
        spelling: [str(value) for value in each.type.choices] if isinstance(each.type, click.Choice) else []
        for each in found.params
        if isinstance(each, click.Option)
        for spelling in sorted([*each.opts, *each.secondary_opts])
    }


def test_no_name_that_is_promised_comes_or_goes_unnoticed():
    found = names()
    if os.environ.get("QDQTOOL_WRITE_GOLDEN"):
        GOLDEN.write_text(json.dumps(found, indent=1) + "\n")
    stored = json.loads(GOLDEN.read_text())
    for kind, kept in found.items():
        assert kept == stored[kind], f"{kind}: QDQTOOL_WRITE_GOLDEN=1 writes them again"


def test_the_page_has_every_file_and_its_tests_exist():
    text = PAGE.read_text()
    files = {name for name in schema_names() if name.endswith("-file")}
    assert {name for name in files if f"{name}`" not in text} == set()
    tests = set(re.findall(r"`(tests/[\w/]+\.py)`", EVIDENCE.read_text().partition("## Files and stability")[2]))
    assert len(tests) > 8
    assert {name for name in tests if not (ROOT / name).is_file()} == set()


def test_the_page_has_the_versions_that_are_read():
    from support.json_schemas import FILES

    rows = re.findall(r"^\| .*`(?:qdqtool schema )?([\w-]+-file)`.* \| ([^|]*) \|$", PAGE.read_text(), re.MULTILINE)
    told = {name: tuple(map(int, re.findall(r"\b\d+\b", versions))) for name, versions in rows}
    assert told == {"recipe-file": (), **{name: found.versions for name, found in FILES.items()}}
