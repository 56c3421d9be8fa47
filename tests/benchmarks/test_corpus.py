"""The corpus run counts exit codes, and sees internal errors, crashes, hangs and outputs that are worse."""

import os
import subprocess
import sys
import time
from pathlib import Path

import onnx
import pytest
from support.paths import ROOT
from support.small import conv_model

from benchmarks import corpus


@pytest.fixture
def model(tmp_path: Path) -> Path:
    onnx.save(conv_model(), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


class Pipe:
    """Keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[tuple[object, ...]] = []

    def send(self, message: tuple[object, ...]) -> None:
        self.sent.append(message)


def failures(model: Path, folder: Path) -> list[object]:
    pipe = Pipe()
    corpus._commands(model, folder, pipe)
    return [what for kind, *what in pipe.sent if kind == "failure"]


def test_a_good_model_goes_through_every_command(model: Path) -> None:
    line = [sys.executable, "-W", "ignore", str(ROOT / "benchmarks" / "corpus.py"), "--files", str(model.parent)]
    done = subprocess.run(line, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    counts = dict(line.strip().split("exit", 1) for line in done.stdout.splitlines() if "exit" in line)
    assert {name.strip(): codes for name, codes in counts.items()} == dict.fromkeys(
        (
            *("inspect", "validate tensorrt", "validate tensorrt-rtx", "validate ort-cpu", "validate onnx"),
            *("strip", "normalize", "check", "quantize", "quantize-weights"),
        ),
        " 0: 1",
    )
    assert done.stdout.endswith("0 files with failures\n")


def test_an_internal_error_is_a_failure(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "_invoke", lambda words: (5 if words[0] == "strip" else 0, "internal error: why"))
    assert failures(model, tmp_path) == [[["internal error: why"]]]


def test_an_output_that_is_refused_is_a_failure(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(words: list[str]) -> tuple[int, str]:
        if words[0] == "normalize":
            broken = onnx.load(model)
            broken.graph.node[0].input[0] = "absent"
            onnx.save(broken, words[-1])
        return 0, ""

    monkeypatch.setattr(corpus, "_invoke", write)
    assert sorted(str(what) for what in failures(model, tmp_path)) == [
        "['ONNX Runtime refuses the output, and accepts the source']",
        "['onnx.checker refuses the output, and accepts the source']",
    ]


def _hang(pipe) -> None:
    pipe.recv()
    time.sleep(600)


def _crash(pipe) -> None:
    pipe.recv()
    os._exit(3)


@pytest.mark.parametrize(("serve", "limit", "said"), [(_hang, 1, "took longer"), (_crash, 60, "process ended with 3")])
def test_a_hang_and_a_crash_are_failures_and_the_next_file_is_done(serve, limit, said, model, monkeypatch) -> None:
    monkeypatch.setattr(corpus, "_serve", serve)
    found = list(corpus._run_all([("first", model), ("second", model)], limit=limit, workers=1))
    assert [each.name for each in found] == ["first", "second"]
    assert all(said in each.failures[0] for each in found)


def test_mutations_are_the_same_every_time_and_differ_from_their_source(model: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "1", tmp_path / "2"
    made = []
    for folder in (first, second):
        folder.mkdir()
        files = list(corpus._mutations([("m", model)], 20, folder))
        made.append([path.read_bytes() for _, path in files])
    assert made[0] == made[1]
    assert sum(content != model.read_bytes() for content in made[0]) > 15
