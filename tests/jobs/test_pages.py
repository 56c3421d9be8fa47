"""The manual is in the package that users install, and every page that a message names is in it."""

import ast
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import click
import pytest
from support.paths import ROOT

from qdqtool.cli import command
from qdqtool.errors import ArgumentError
from qdqtool.jobs import pages
from qdqtool.linting import rules
from qdqtool.reports.schemas import schema_text

NAMED = re.compile(r"qdqtool explain ([a-z-]+)|docs/(?!developers)(?:[a-z-]+/)?([a-z-]+)\.md")


def test_every_page_has_a_title_and_a_name_to_ask_for():
    assert {page.name for page in pages.manual().pages} >= {"files", "check", "other-tools", "validate"}
    assert all(page.title for page in pages.manual().pages)
    with pytest.raises(ArgumentError, match="there is no page 'bulid'; did you mean 'build'"):
        pages.page("bulid")
    assert "::: " not in pages.page("python").text


def test_rules_are_known_without_their_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    index = (ROOT / "docs" / "rules" / "README.md").read_text(encoding="utf-8")
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "README.md").write_text(index, encoding="utf-8")
    monkeypatch.setattr(pages, "_MANUALS", (tmp_path,))

    assert pages.rule_codes() == tuple(rule.code for rule in rules.catalogue())


def test_every_page_that_a_message_or_help_text_names_exists():
    strings = [
        node.value
        for path in (ROOT / "qdqtool").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    named = {match[1] or match[2] for text in strings for match in NAMED.finditer(text)}

    assert len(named) >= 5
    assert named <= {*pages.page_names(), "CODE", "NAME"}


def test_the_installed_copy_goes_before_the_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "only.md").write_text("# The only page\n", encoding="utf-8")
    monkeypatch.setattr(pages, "_MANUALS", (tmp_path, ROOT / "docs"))

    assert pages.page_names() == ("only",)


def test_every_command_has_a_page():
    commands = command.list_commands(click.Context(command))
    assert [name for name in commands if not pages.page(name).text] == []
    assert set(pages.topics()) - set(pages.page_names()) <= set(commands)


@pytest.mark.slow(reason="builds a wheel")
def test_the_wheel_has_the_manual_and_the_schemas_and_shows_them(tmp_path: Path):
    pytest.importorskip("hatchling")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=120)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as file:
        file.extractall(tmp_path / "installed")
    installed = tmp_path / "installed" / "qdqtool" / "manual"

    assert {path.stem for path in installed.rglob("*.md") if path.parent.name != "rules"} == set(pages.page_names())
    made = {path.stem for path in (installed / "rules").glob("Q*.md")}
    assert made == {rule.code for rule in rules.catalogue()}
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "installed")}
    shown = [sys.executable, "-P", "-m", "qdqtool", "explain", "files"]
    done = subprocess.run(shown, cwd=tmp_path, env=environment, check=True, capture_output=True, text=True, timeout=120)
    assert done.stdout.startswith("# Files and reports")
    shown[-2:] = ["schema", "check"]
    done = subprocess.run(shown, cwd=tmp_path, env=environment, check=True, capture_output=True, text=True, timeout=120)
    assert done.stdout == schema_text("check") + "\n"
    shown[-2:] = ["explain", "docs/rules/QP101.md"]
    done = subprocess.run(shown, cwd=tmp_path, env=environment, check=True, capture_output=True, text=True, timeout=120)
    assert done.stdout.startswith("QP101 parameters.scale-value")
