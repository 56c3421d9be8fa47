"""``make demo`` does the main job, and tells when it does not succeed."""

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from support.paths import ROOT


def run_demo(*words: str | Path, repository: Path = ROOT) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, repository / "sample_models" / "demo.py", *words]
    return subprocess.run(command, cwd=repository, capture_output=True, text=True, check=False, timeout=300)


@pytest.fixture
def changed_repository(tmp_path) -> Path:
    """A folder with the demo and its sample, to be spoilt; with fewer test images, to be quick."""
    sample = tmp_path / "sample_models" / "digits_cnn"
    shutil.copytree(ROOT / "sample_models" / "digits_cnn", sample)
    with np.load(sample / "test.npz") as data:
        few = {name: array[:32] for name, array in data.items()}
    np.savez(sample / "test.npz", **few)
    shutil.copy(ROOT / "sample_models" / "demo.py", tmp_path / "sample_models")
    return tmp_path


def replace_calibration(repository: Path, **arrays: np.ndarray) -> None:
    np.savez(repository / "sample_models" / "digits_cnn" / "calibration.npz", **arrays)


@pytest.mark.slow(reason="the whole demo")
@pytest.mark.builder
def test_the_demo_ends_in_an_engine_and_a_summary(tmp_path):
    ended = run_demo(tmp_path / "out")
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == ""
    summary = ended.stdout.split("\nSummary\n")[1]
    assert "int8 99." in summary
    assert " dB on the output" in summary
    assert "0 errors" in summary
    assert "8 of 8 planned int8 nodes are int8 (evidence: aot-dump)" in summary
    assert summary.endswith("The demo succeeded.\n")
    assert (tmp_path / "out" / "model.int8.engine").stat().st_size > 0
    assert "\n$ qdqtool convert " in ended.stdout
    assert json.loads((tmp_path / "out" / "report.json").read_text())["passed"]


@pytest.mark.slow(reason="runs the demo")
def test_calibration_data_that_ruins_the_result_fails_the_demo(changed_repository):
    replace_calibration(changed_repository, image=np.linspace(0, 0.01, 256, dtype=np.float32).reshape(4, 1, 8, 8))
    ended = run_demo(repository=changed_repository)
    assert ended.returncode == 1
    assert "demo failed: qdqtool convert " in ended.stderr
    assert "error: check: " in ended.stderr
    assert "min-sqnr" in ended.stdout
    assert not (changed_repository / "build" / "demo" / "model.int8.engine").exists()


def test_calibration_data_that_is_refused_fails_the_demo(changed_repository):
    replace_calibration(changed_repository, picture=np.zeros((4, 1, 8, 8), np.float32))
    ended = run_demo(repository=changed_repository)
    assert ended.returncode == 1
    assert "demo failed: qdqtool convert " in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.fixture
def demo() -> ModuleType:
    spec = importlib.util.spec_from_file_location("demo", ROOT / "sample_models" / "demo.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["demo"] = module
    spec.loader.exec_module(module)
    return module


def summarize(demo: ModuleType, folder: Path, monkeypatch, *, after: float = 99.0, **changed: Any) -> bool:
    """The verdict of the summary when everything is well except what is ``changed``."""
    monkeypatch.chdir(ROOT)
    (folder / "model.int8.onnx").write_bytes(b"model")
    (folder / "model.int8.engine").write_bytes(b"engine")
    monkeypatch.setattr(demo, "accuracy", lambda model: 99.0 if model == demo.FLOAT_MODEL else after)
    built = {"planned": {"int8": 9}, "achieved": {"int8": 9}, "evidence": "aot-dump"}
    steps = {
        "validate": {"summary": {"errors": changed.get("errors", 0), "warnings": 0}},
        "check": {"outputs": [{"sqnr_db": 38.6}]},
        "build": changed.get("built", built),
    }
    kinds = ["model", "engine"] if steps["build"] is not None else ["model"]
    names = {"model": "model.int8.onnx", "engine": "model.int8.engine"}
    report = {
        "passed": changed.get("passed", True),
        "steps": [{"step": step, "report": found} for step, found in steps.items()],
        "files": [{"what": kind, "name": names[kind]} for kind in kinds],
    }
    return demo.summarize(folder, report)


@pytest.mark.parametrize("changed", [{}, {"after": 98.5}, {"after": 99.4}, {"built": None}])
def test_the_summary_is_good(demo, tmp_path, monkeypatch, changed):
    assert summarize(demo, tmp_path, monkeypatch, **changed) is True


@pytest.mark.parametrize("changed", [{"after": 98.49}, {"errors": 1}, {"passed": False}])
def test_the_summary_is_bad(demo, tmp_path, monkeypatch, capsys, changed):
    assert summarize(demo, tmp_path, monkeypatch, **changed) is False
    assert "The demo FAILED." in capsys.readouterr().out


def without_builder(demo: ModuleType, folder: Path, monkeypatch, machine: tuple[str, str]) -> list[list[str]]:
    """The demo on a machine of that kind, where building ends with exit code 4; the commands that it runs."""
    system, processor = machine
    monkeypatch.setattr(demo.platform, "system", lambda: system)
    monkeypatch.setattr(demo.platform, "machine", lambda: processor)
    ran: list[list[str]] = []

    def refuse(arguments):
        ran.append(arguments)
        if "--no-build" not in arguments:
            raise demo.StepFailedError(arguments, 4)
        (folder / "report.json").write_text("{}")

    monkeypatch.setattr(demo, "_run", refuse)
    return ran


def test_a_platform_without_the_builder_skips_its_step_and_says_so(demo, tmp_path, monkeypatch, capsys):
    ran = without_builder(demo, tmp_path, monkeypatch, ("Darwin", "arm64"))
    assert demo.convert(tmp_path) == {}
    assert ["--backend" in words for words in ran] == [True, False]
    summarize(demo, tmp_path, monkeypatch, built=None)
    printed = capsys.readouterr().out
    assert "SKIPPED: TensorRT for RTX does not exist for Darwin arm64" in printed
    assert "The demo succeeded, the engine SKIPPED." in printed


def test_a_platform_with_the_builder_does_not_skip_its_step(demo, tmp_path, monkeypatch):
    without_builder(demo, tmp_path, monkeypatch, ("Linux", "x86_64"))
    with pytest.raises(demo.StepFailedError):
        demo.convert(tmp_path)
