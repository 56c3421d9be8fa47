"""What a code block of a page must be, by its tag; nothing is run.

Data is read by the reader of its format. A command has to exist, with its options and their values.
"""

import ast
import contextlib
import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import onnx
import yaml

from qdqtool.cli import command
from qdqtool.errors import QdqError
from qdqtool.jobs.check_models import read_checks
from qdqtool.quantization.planning.plan_file import read_plan_file
from support.code_blocks import Block
from support.paths import ROOT
from support.printed_json import faults as schema_faults

MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
SHELLS = {"bash_source", "zsh_source", "fish_source"}


def faults(block: Block) -> list[str]:
    """Return what is wrong with a block; empty where nothing is."""
    language, _, kind = block.tag.partition(" ")
    check = CHECKS.get(block.tag) or (_json if language == "json" and kind else None)
    if check is None:
        return [f"the tag '{block.tag}' is not known; there are {', '.join(CHECKS)} and json SCHEMA"]
    try:
        return list(check(block))
    # A block may hold anything: each reader's own error is what is wrong with it.
    except (click.ClickException, QdqError, SyntaxError, ValueError, yaml.YAMLError, onnx.parser.ParseError) as error:
        return [f"{type(error).__name__}: {error.format_message() if hasattr(error, 'format_message') else error}"]


def command_fault(words: tuple[str, ...]) -> str | None:
    """Return why a command line cannot be meant, or None."""
    program, *rest = words
    if program.startswith("_QDQTOOL_COMPLETE="):
        known = program.partition("=")[2] in SHELLS and rest == ["qdqtool"]
        return None if known else f"no shell completes with {program}"
    check = PROGRAMS.get(program)
    return check(rest) if check else f"nothing is known of the program '{program}'"


def _commands(block: Block) -> Iterator[str]:
    if not block.commands:
        yield "it has no command"
    elif block.tag == "console" and not block.text.startswith("$ "):
        yield "its first line is no command"
    for each in block.commands:
        fault = command_fault(each.words)
        if fault:
            yield f"{each.text}: {fault}"


def _qdqtool(words: list[str]) -> str | None:
    """Let click parse a command line: command, options, values and what is required."""
    try:
        with command.make_context("qdqtool", words[:1]) as context:
            name, found, rest = command.resolve_command(context, words)
            assert found is not None
            found.make_context(name, rest, parent=context).close()
    except click.exceptions.Exit as end:
        return None if end.exit_code == 0 else f"ends with {end.exit_code}"
    except click.ClickException as error:
        return error.format_message()
    return None


def _make(words: list[str]) -> str | None:
    phony = MAKEFILE.partition(".PHONY:")[2].partition("\n")[0].split()
    for word in words:
        name, is_variable, _ = word.partition("=")
        if is_variable and f"$({name})" not in MAKEFILE and f"$(or $({name})" not in MAKEFILE:
            return f"the Makefile reads no variable {name}"
        if not is_variable and name not in phony:
            return f"the Makefile has no target {name}"
    return None


def _python(words: list[str]) -> str | None:
    """A script of the project and its options, or a module."""
    script, *rest = words
    if script == "-m":
        return None if find_spec(rest[0]) else f"there is no module {rest[0]}"
    path = ROOT / script
    if not path.is_file():
        return f"there is no {script}"
    source = path.read_text(encoding="utf-8")
    # Options are added by their names, or in a loop over names without the dashes.
    looped = 'f"--{name}"' in source
    legal = {word for word in rest if f'"{word}"' in source or (looped and f'"{word[2:]}"' in source)}
    unknown = [word for word in rest if word.startswith("--") and word not in legal]
    return f"{script} has no option {unknown[0]}" if unknown else None


def _pip(words: list[str]) -> str | None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = re.fullmatch(r"\.\[(\w+)\]", words[-1])
    if words[0] != "install" or len(words) != 2:
        return "it is no `pip install` of one thing"
    if named and named[1] not in extras:
        return f"there is no extra {named[1]}"
    return None if named or words[1] == "." or words[1].startswith("git+https://git.example.com/") else words[1]


PROGRAMS: Mapping[str, Callable[[list[str]], str | None]] = {
    "qdqtool": _qdqtool,
    "make": _make,
    "python": _python,
    "pip": _pip,
    "mkdir": lambda words: None if len(words) == 2 and words[0] == "-p" else "it is no `mkdir -p` of one folder",
    "ssh-keygen": lambda words: None if words[:2] == ["-t", "ed25519"] else "another kind of key",
}


def _parses(block: Block) -> Iterator[str]:
    ast.parse(block.text)
    yield from ()


def _output(block: Block) -> Iterator[str]:
    if not block.text.strip():
        yield "it is empty"


def _onnx(block: Block) -> Iterator[str]:
    """A graph, or a model with its header."""
    parse = onnx.parser.parse_model if block.text.lstrip().startswith("<") else onnx.parser.parse_graph
    parse(block.text)
    yield from ()


def _json(block: Block) -> Iterator[str]:
    yield from schema_faults(json.loads(block.text), block.tag.partition(" ")[2])


def _plan(block: Block) -> Iterator[str]:
    with _stored(block, "plan.toml") as path:
        read_plan_file(path)
    yield from ()


def _settings(block: Block) -> Iterator[str]:
    with _stored(block, "qdqtool.toml") as path:
        read_checks(path)
    yield from ()


def _recipe(block: Block) -> Iterator[str]:
    with _stored(block, "recipe.toml") as path:
        fault = _qdqtool(["convert", "model.onnx", "--recipe", str(path), "-o", "out"])
    if fault:
        yield fault


def _hook(block: Block) -> Iterator[str]:
    """A pre-commit configuration: each hook is offered by this project, and its arguments fit its command."""
    offered = {hook["id"]: hook for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())}
    for hook in [hook for each in yaml.safe_load(block.text)["repos"] for hook in each["hooks"]]:
        if hook["id"] not in offered:
            yield f"there is no hook {hook['id']}"
            continue
        entry = offered[hook["id"]]["entry"].split()
        fault = command_fault((*entry, *hook.get("args", ()), "model.onnx"))
        if fault:
            yield fault


def _workflow(block: Block) -> Iterator[str]:
    """Steps of a workflow, a job or all of it: the action has each input that they give it, and models to validate."""
    found = yaml.safe_load(block.text)
    inputs = yaml.safe_load((ROOT / "action.yml").read_text())["inputs"]
    jobs = [{"steps": found}] if isinstance(found, list) else found.get("jobs", {"only": found}).values()
    steps = [step for job in jobs for step in job["steps"]]
    ours = [step for step in steps if "qdqtool" in step.get("uses", "")]
    if not ours:
        yield "no step uses the action"
    for step in ours:
        given = step.get("with", {})
        yield from (f"the action has no input {name}" for name in given.keys() - inputs.keys())
        if given.get("command") != "check" and "models" not in given:
            yield "the action requires models"


@contextlib.contextmanager
def _stored(block: Block, name: str) -> Iterator[Path]:
    """Keep the text of a block in a file of this name while it is read."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_text(block.text, encoding="utf-8")
        yield path


CHECKS: Mapping[str, Callable[[Block], Iterator[str]]] = {
    "console": _commands,
    "sh": _commands,
    "python": _parses,
    "text": _output,
    "onnx": _onnx,
    "toml plan-file": _plan,
    "toml settings-file": _settings,
    "toml recipe": _recipe,
    "yaml pre-commit": _hook,
    "yaml workflow": _workflow,
}
"""What a block of each tag is held to, besides ``json SCHEMA``: the schema ``qdqtool schema SCHEMA``."""
