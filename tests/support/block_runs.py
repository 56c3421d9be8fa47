"""Run the blocks of a page in their order, as a reader does who types along.

Commands of qdqtool run in this process. What a block shows of their output has to be printed.
"""

import contextlib
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pytest

from qdqtool.api.pytest_plugin import QdqAssertions
from support.cells import run_cells
from support.code_blocks import Block, Command
from support.command import exit_code_of

MEASURED = re.compile(r"-?\d+(?:\\\.\d+)+")
"""A number with a point, escaped for a pattern: sums of floats, times and versions differ between machines."""


def run_blocks(
    blocks: Sequence[Block], folder: Path, *, names: Mapping[str, object], not_run: Iterable[str] = ()
) -> set[str]:
    """Run the commands and scripts of a page in a folder.

    Args:
        blocks: The blocks, in order.
        folder: Where they run; it holds what the page takes for granted.
        names: What the scripts take for granted.
        not_run: Beginnings of commands and scripts that are left out.

    Returns:
        Those of ``not_run`` that a command or script begins with.

    Raises:
        AssertionError: A command ends otherwise than the page says, or does not print what it shows; a script fails, or
            does not print what the block below it says.
    """
    space, left_out = dict(names), set()
    for block, following in zip(blocks, [*blocks[1:], None], strict=True):
        for command in block.commands:
            found = _first(not_run, command.text)
            left_out |= {found} - {None}
            if found is None and command.words[0] == "qdqtool":
                _run_command(command, folder, block)
            if command.words[:2] == ("mkdir", "-p"):
                (folder / command.words[2]).mkdir(parents=True)
        if block.tag == "python":
            found = _first(not_run, block.text)
            left_out |= {found} - {None}
            if found is None:
                _run_script(block, following, space, folder)
    return {each for each in left_out if each is not None}


def shows(printed: str, shown: Iterable[str]) -> str | None:
    """Return the first of the lines that was not printed, in this order; ``…`` stands for anything."""
    lines = iter([" ".join(line.split()) for line in printed.splitlines()])
    for each in shown:
        if each.strip() != "…" and not any(_pattern(each).fullmatch(line) for line in lines):
            return each
    return None


def _pattern(shown: str) -> re.Pattern[str]:
    words = re.escape(" ".join(shown.split())).replace(r"\ ", " ")
    return re.compile(MEASURED.sub(r"-?[\\d.]+", words).replace("…", ".*"))


def _first(beginnings: Iterable[str], text: str) -> str | None:
    return next((each for each in beginnings if text.startswith(each)), None)


def _run_command(command: Command, folder: Path, block: Block) -> None:
    out, err = io.StringIO(), io.StringIO()
    err = err if command.stdout else out
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = exit_code_of(_expanded(command.words[1:], folder), folder)
    printed = out.getvalue() + (err.getvalue() if err is not out else "")
    said = f"{block}: {command.text}\nended with {code} and printed\n{printed}"
    assert code == command.exit_code, said
    missing = shows(out.getvalue(), command.shown)
    assert missing is None, f"{said}\nwithout the line\n{missing}"
    if command.stdout:
        (folder / command.stdout).write_text(out.getvalue(), encoding="utf-8")


def _expanded(words: Iterable[str], folder: Path) -> list[str]:
    """The words with the files that patterns match, as a shell gives them."""
    found = []
    for word in words:
        files = sorted(path.relative_to(folder).as_posix() for path in folder.glob(word)) if "*" in word else []
        found += files or [word]
    return found


def _run_script(block: Block, following: Block | None, names: dict[str, object], folder: Path) -> None:
    """Run a script; a test in it is called with the fixture of the pytest plugin."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        (given,) = run_cells([block.text], names)
        for name in re.findall(r"^def (test_\w+)\(qdq\)", block.text, re.MULTILINE):
            names[name](QdqAssertions())
    if following is not None and following.is_output:
        assert given.text == following.text, f"{block} prints something else than {following} says"
