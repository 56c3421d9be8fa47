"""Help texts with headings: every option stands under one, and lines fit a terminal."""

import gc
import importlib
import re
from collections import Counter

import click
import pytest
from click.testing import CliRunner

from qdqtool.cli import _WORK, command
from qdqtool.cli.sections import HELP_NAMES, OTHERS, Layout, SectionedCommand, _load_job, name_of

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


def test_every_command_is_listed_once_in_the_order_of_the_work():
    text = CliRunner().invoke(command, ["--help"], prog_name="qdqtool").output.partition("Commands:")[2]
    listed = re.findall(r"^  ([a-z][a-z-]*)  ", text, re.MULTILINE)
    assert listed == [*_WORK, *(name for name in NAMES if name not in _WORK)]
    assert text.index("\nMore:\n") > text.index("  explain ")


@pytest.mark.parametrize("name", NAMES)
def test_help_fits_a_screen_and_help_all_has_every_option(name: str):
    short, whole = (
        CliRunner().invoke(command, [name, flag], prog_name="qdqtool", terminal_width=80).output
        for flag in ("--help", "--help-all")
    )
    assert len(short.splitlines()) <= 60
    if "--help-all" not in short:
        return
    options = [each for each in FOUND[name].get_params(CONTEXT) if isinstance(each, click.Option)]
    assert [flag for each in options for flag in each.opts if flag not in whole] == []
    assert f"shows all {len(options)} options" in short
    assert short.index("Examples:") < short.index("Options:")


@pytest.mark.parametrize("width", [60, 80])
@pytest.mark.parametrize("name", ["", *NAMES])
def test_help_texts_fit_the_terminal(name: str, width: int):
    words = [*filter(None, [name]), "--help"]
    text = CliRunner().invoke(command, words, prog_name="qdqtool", terminal_width=width).output
    body = re.sub(r"^Examples:\n(?:  .*\n)+", "", text, flags=re.MULTILINE)

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


@pytest.mark.parametrize(
    ("name", "word"),
    [
        (name, word)
        for name in ("build", "convert", "quantize")
        for word in OTHERS
        if all(word not in each.opts for each in FOUND[name].params)
    ],
)
def test_an_option_of_another_tool_leads_to_ours(name: str, word: str):
    done = CliRunner().invoke(command, [name, word, "model.onnx"])
    assert done.exit_code == 2
    assert OTHERS[word] in " ".join(done.output.split())


@pytest.mark.parametrize("text", dict.fromkeys(OTHERS.values()))
def test_what_is_advised_exists(text: str):
    known = known_flags()
    assert set(re.findall(r"(?<![\w-])-[-\w]+", text)) <= known
    assert set(re.findall(r"`qdqtool (\w+)", text)) <= set(NAMES)


def known_flags() -> set[str]:
    return {flag for found in FOUND.values() for each in found.params for flag in each.opts}
