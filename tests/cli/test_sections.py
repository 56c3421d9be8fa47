"""Help texts with headings: every option stands under one, and lines fit a terminal."""

import gc
import importlib
from collections import Counter

import click
import pytest
from click.testing import CliRunner

from qdqtool.cli import _WORK, command
from qdqtool.cli.sections import HELP_NAMES, Layout, SectionedCommand, _load_job, name_of

CONTEXT = click.Context(command, **command.context_settings)
NAMES = command.list_commands(CONTEXT)
FOUND = {name: found for name in NAMES if (found := command.get_command(CONTEXT, name)) is not None}


@pytest.mark.parametrize("name", [name for name, found in FOUND.items() if isinstance(found, SectionedCommand)])
def test_every_option_stands_under_one_heading(name: str):
    found = FOUND[name]
    assert isinstance(found, SectionedCommand)
    listed = Counter(word for words in found.sections.values() for word in words)
    options = {
        name_of(each)
        for each in found.get_params(click.Context(found, parent=CONTEXT))
        if isinstance(each, click.Option)
    }

    assert set(listed) == options
    assert set(listed.values()) == {1}


def test_every_command_is_listed_with_the_work_that_it_is_for():
    assert sorted(name for names in _WORK.values() for name in names) == NAMES
    text = CliRunner().invoke(command, ["--help"], prog_name="qdqtool").output
    assert [line for line in text.splitlines() if line.endswith(":") and line[0] != " "][1:] == [
        f"{heading}:" for heading in _WORK
    ]
    assert "Other" not in text


@pytest.mark.parametrize("width", [60, 80])
@pytest.mark.parametrize("name", ["", *NAMES])
def test_help_texts_fit_the_terminal(name: str, width: int):
    words = [*filter(None, [name]), "--help"]
    text = CliRunner().invoke(command, words, prog_name="qdqtool", terminal_width=width).output
    body = text.partition("Examples:")[0]

    assert max(map(len, body.splitlines())) <= width
    assert "TEXT" not in body
    assert "RANGE " not in body


def test_a_context_without_a_parent_leaves_the_short_help():
    found = SectionedCommand("x", layout=Layout(sections={}))
    assert found.get_help_option(found.make_context("x", [])).opts == HELP_NAMES


def test_a_job_is_imported_before_its_command_runs_and_collection_goes_on(monkeypatch):
    seen = []
    monkeypatch.setattr(importlib, "import_module", lambda name: seen.append((name, gc.isenabled())))
    _load_job("convert-ranges")
    _load_job("no-such-command")
    assert seen == [("qdqtool.jobs.convert_ranges", False)]
    assert gc.isenabled()
