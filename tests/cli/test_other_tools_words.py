"""Options of trtexec, Polygraphy and Model Optimizer lead to ours, and these exist."""

import re

import click
import pytest
from click.testing import CliRunner

from qdqtool.cli import command as qdqtool
from qdqtool.cli.sections import OTHERS


@pytest.mark.parametrize("word", OTHERS)
@pytest.mark.parametrize("command", ["build", "convert", "quantize"])
def test_an_option_of_another_tool_leads_to_ours(word: str, command: str):
    done = CliRunner().invoke(qdqtool, [command, word, "model.onnx"])
    known = {flag for each in options() for flag in each.opts}
    if word in known:
        pytest.skip("a command has it")
    assert done.exit_code == 2
    assert OTHERS[word] in " ".join(done.output.split())


@pytest.mark.parametrize("text", dict.fromkeys(OTHERS.values()))
def test_what_is_advised_exists(text: str):
    known = {flag for each in options() for flag in each.opts}
    assert set(re.findall(r"(?<![\w-])-[-\w]+", text)) <= known
    context = click.Context(qdqtool)
    assert set(re.findall(r"`qdqtool (\w+)", text)) <= set(qdqtool.list_commands(context))


def options() -> list[click.Parameter]:
    context = click.Context(qdqtool)
    found = [qdqtool.get_command(context, name) for name in qdqtool.list_commands(context)]
    return [each for one in found if one is not None for each in one.params]
