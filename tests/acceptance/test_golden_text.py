"""What each command prints on a terminal of 80 columns, word for word: ``tests/golden/text`` has a file for each scene.

After a change that is meant, write the files again and read what git shows:

    QDQTOOL_WRITE_GOLDEN=1 pytest tests/acceptance/test_golden_text.py
"""

import difflib
import os
import re
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.paths import ROOT
from support.scene_files import FILES, provide
from support.scenes import NEED_BUILDER, SCENES

from qdqtool import __main__ as entry
from qdqtool.cli import command
from qdqtool.engines.gpu import requirements
from qdqtool.engines.tensorrt import backends
from qdqtool.jobs import doctor
from qdqtool.models.running import ort_cpu

GOLDEN = ROOT / "tests" / "golden" / "text"
WRITE = "QDQTOOL_WRITE_GOLDEN"
COLUMNS = 80

VARIES = (
    (r"(?<=reference  onnxruntime )\d+(\.\d+)+", "VERSION"),
    (r"(?<=  tensorrt-rtx )\d+(\.\d+)+", "VERSION"),
    (r"[\d.]+ [kM]B in [\d.]+ s$", "SIZE in TIME"),
)
"""What is another on another machine or day: versions of libraries, and the size and time of an engine."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which files are made, each once for all scenes."""
    return tmp_path_factory.mktemp("made")


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with one processor, no GPU, and two packages short of what there is."""
    monkeypatch.setattr(ort_cpu, "cpu_name", lambda: "a processor")
    monkeypatch.setattr(ort_cpu, "cpu_features", lambda: ("avx2", "fma"))
    versions = {"tensorrt": None, "tensorrt-cu12": None, "tensorrt-cu13": None, "onnxruntime-gpu": None}
    monkeypatch.setattr(doctor, "_version", lambda name: versions.get(name, "1.0"))
    monkeypatch.setattr(doctor, "_import_error", lambda name: "no such symbol" if name == "numba" else "")
    monkeypatch.setattr(doctor.platform, "python_version", lambda: "3.12.0")
    monkeypatch.setattr(doctor.platform, "system", lambda: "Linux")
    monkeypatch.setattr(doctor.platform, "machine", lambda: "x86_64")
    # Not sys.executable itself: builders start their child processes with it.
    monkeypatch.setattr(doctor, "sys", SimpleNamespace(executable="/usr/bin/python3"))
    for module in (doctor, requirements):
        monkeypatch.setattr(module, "find_gpus", lambda: ((), "no CUDA driver (libcuda is absent)"))


@pytest.mark.parametrize("scene", SCENES)
def test_what_is_printed(
    scene: str, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    if scene in NEED_BUILDER and not backends.get("tensorrt-rtx").is_installed():
        pytest.skip("TensorRT for RTX is not installed")
    words = SCENES[scene].split()
    for word in words:
        if word in FILES:
            shutil.copy(provide(word, made), tmp_path / word)
    capfd.readouterr()
    monkeypatch.chdir(tmp_path)
    code = run_on_a_terminal(words, monkeypatch)
    out, err = capfd.readouterr()

    found = transcript(words, out, err, code)
    compare(GOLDEN / f"{scene}.txt", found)


def run_on_a_terminal(words: list[str], monkeypatch: pytest.MonkeyPatch) -> object:
    """Run a command as on a terminal that has no colours; return its exit code."""
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    for stream in (sys.stdout, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)
    with pytest.raises(SystemExit) as end:
        entry.main(words)
    return end.value.code


def transcript(words: list[str], out: str, err: str, code: object) -> str:
    told = f"--- stderr\n{err}" if err else ""
    text = f"$ qdqtool {' '.join(words)}\n{out}{told}--- exit code {code}\n"
    for varying, instead in VARIES:
        text = re.sub(varying, instead, text, flags=re.MULTILINE)
    # On a terminal nobody sees what a laid out page pads its lines with, and editors drop it.
    return re.sub(r" +$", "", text, flags=re.MULTILINE)


def compare(path: Path, found: str) -> None:
    if os.environ.get(WRITE):
        path.write_text(found)
    expected = path.read_text() if path.exists() else ""
    difference = difflib.unified_diff(
        expected.splitlines(), found.splitlines(), f"{path.name} as kept", "as printed now", lineterm=""
    )
    assert expected == found, "\n".join([*difference, f"if this is meant, run again with {WRITE}=1"])


def test_every_command_has_scenes_and_every_file_a_scene():
    assert {path.stem for path in GOLDEN.iterdir()} == set(SCENES)
    shown = {words.split()[0] for name, words in SCENES.items() if not name.endswith("_help")}
    assert set(command.list_commands(None)) <= shown
