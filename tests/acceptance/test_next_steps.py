"""Each command that a page advises works as it is printed, where the reports were made."""

import html
import re
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.command import exit_code_of
from support.scene_files import provide

STEP = re.compile(r"<li>([^<]*)<pre tabindex=\"0\"><code>(.*?)</code></pre></li>", re.DOTALL)
FILLS = {"DATA": "samples.npz", "FLOAT.onnx": "net.onnx", "MODEL.onnx": "int8.onnx"}


@dataclass(frozen=True, kw_only=True)
class Case:
    """Reports, and the steps that a page of them advises.

    Attributes:
        files: Files that are there.
        commands: Commands that make reports; each writes ``N.json``.
        steps: The commands of the steps, without their files.
        then: Exit codes besides 0 with which a step may end, since the model is what it is.
    """

    files: tuple[str, ...]
    commands: tuple[str, ...]
    steps: tuple[str, ...]
    then: tuple[int, ...] = ()


CASES = {
    "random data": Case(
        files=("net.onnx", "samples.npz"),
        commands=(
            "quantize net.onnx --random-calibration --samples 2 -o q.onnx",
            "check q.onnx --baseline net.onnx --samples 2",
        ),
        steps=("quantize --calib-data", "check --baseline --data", "validate", "build"),
    ),
    "little accuracy": Case(
        files=("net.onnx", "samples.npz"),
        commands=(
            "quantize net.onnx --calib-data samples.npz --quantize-mode fp8 -o q.onnx",
            "sensitivity net.onnx --calib-data samples.npz --quantize-mode fp8",
            "check q.onnx --baseline net.onnx --data samples.npz --min-sqnr 50",
            "validate q.onnx",
        ),
        steps=("quantize --calib-data --quantize-mode --nodes-to-exclude", "build --data"),
    ),
    "scales that do not fit": Case(
        files=("net.onnx", "coarse.onnx", "samples.npz"),
        commands=("check coarse.onnx --baseline net.onnx --data samples.npz --min-sqnr 20", "validate coarse.onnx"),
        steps=("quantize --calib-data", "build --data"),
    ),
    "no limit": Case(
        files=("net.onnx", "int8.onnx", "samples.npz"),
        commands=("check int8.onnx --baseline net.onnx --data samples.npz", "validate int8.onnx"),
        steps=("check --baseline --data --min-sqnr", "build --data"),
    ),
    "errors": Case(
        files=("faulty.onnx",),
        commands=("validate faulty.onnx",),
        steps=("validate --fix", "explain"),
        # Errors that no fix mends are left.
        then=(1,),
    ),
    "a pair that does not fit": Case(
        files=("net.onnx", "mismatched.onnx", "samples.npz"),
        commands=("check mismatched.onnx --baseline net.onnx --data samples.npz", "validate mismatched.onnx"),
        steps=("check --baseline --data --verbose", "explain"),
        # The check shows the fault again.
        then=(1,),
    ),
}


def advised(folder: Path, commands: tuple[str, ...]) -> list[tuple[str, list[str]]]:
    """Make the reports and their page; return fact and words of each step."""
    reports = [f"{number}.json" for number in range(len(commands))]
    for report, line in zip(reports, commands, strict=True):
        assert exit_code_of([*line.split(), "--report", f"json={report}", "--quiet"], folder) in {0, 1}
    assert exit_code_of(["report", *reports, "-o", "page.html", "--quiet"], folder) == 0
    page = (folder / "page.html").read_text(encoding="utf-8")
    found = ((html.unescape(fact), re.sub("</?span>", "", line)) for fact, line in STEP.findall(page))
    return [(fact, shlex.split(html.unescape(line))) for fact, line in found]


@pytest.mark.slow(reason="runs every command of a page")
@pytest.mark.parametrize("name", CASES)
def test_the_steps_of_a_page_work_as_they_are_printed(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    if any(step.startswith("build") for step in case.steps):
        pytest.importorskip("tensorrt_rtx")
    folder = tmp_path / "here"
    folder.mkdir()
    for file in case.files:
        provide(file, folder)
    found = advised(folder, case.commands)

    told = [" ".join([words[1], *(word for word in words if word.startswith("--"))]) for _, words in found]
    assert told == list(case.steps), found
    for number, (_, words) in enumerate(found):
        again = tmp_path / str(number)
        shutil.copytree(folder, again)
        assert words[0] == "qdqtool"
        assert exit_code_of([FILLS.get(word, word) for word in words[1:]], again) in {0, *case.then}, shlex.join(words)
