"""Every command of docs/walkthrough.md runs, ends as the page says, and prints what the page shows."""

import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.paths import ROOT

PAGE = (ROOT / "docs" / "walkthrough.md").read_text(encoding="utf-8")
FOLDER = "build/walkthrough"


@dataclass(frozen=True)
class Block:
    kind: str
    text: str

    @property
    def command(self) -> list[str]:
        return shlex.split(self.text.splitlines()[0].removeprefix("$ "), comments=True)

    @property
    def exit_code(self) -> int:
        said = re.search(r"# exit code (\d)$", self.text.splitlines()[0])
        return int(said[1]) if said else 0

    @property
    def shown(self) -> list[str]:
        return [line for line in self.text.splitlines()[1:] if line.strip() and line != "…"]


BLOCKS = [Block(*found) for found in re.findall(r"^```(console|python)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)]


def without_numbers(line: str) -> str:
    """A line as far as every machine prints it: numbers masked, since float sums and times differ; spaces joined."""
    return " ".join(re.sub(r"-?\d[\d.]*", "#", line).split())


def run(words: list[str], folder: Path) -> tuple[int, str]:
    environment = {**os.environ, "NO_COLOR": "1"}
    command = [sys.executable, *(word.replace(FOLDER, str(folder)) for word in words)]
    ended = subprocess.run(
        command, cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    return ended.returncode, ended.stdout.replace(str(folder), FOLDER)


def test_the_page_has_commands_and_a_script():
    assert [block.kind for block in BLOCKS].count("python") == 1
    commands = {block.command[1] for block in BLOCKS if block.kind == "console"}
    assert commands == {"insert", "inspect", "validate", "check", "build", "strip"}


def test_the_plan_on_the_page_is_the_beginning_of_the_real_one():
    shown = re.findall(r"^```toml plan-file\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[0]
    assert shown in (ROOT / "sample_models" / "digits_cnn" / "plan.toml").read_text(encoding="utf-8")


@pytest.mark.builder
def test_every_command_does_what_the_page_says(tmp_path):
    for block in BLOCKS:
        if block.kind == "python":
            assert run(["-c", block.text.replace(FOLDER, str(tmp_path))], tmp_path) == (0, "")
            continue
        assert block.command[0] == "qdqtool"
        code, printed = run(["-m", *block.command], tmp_path)
        assert code == block.exit_code, printed
        lines = [without_numbers(line) for line in printed.splitlines()]
        for line in block.shown:
            assert without_numbers(line) in lines, f"not printed by {shlex.join(block.command)}: {line}\n{printed}"
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "digits.engine",
        "digits.engine.manifest.json",
        "digits.onnx",
        "float.onnx",
        "spoilt.onnx",
    ]
