"""Jobs that run engines, with fake runners in place of libraries and a GPU that is said to be there."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from qdqtool.engines.gpu import requirements
from qdqtool.engines.tensorrt.gpus import Gpu
from qdqtool.jobs import run
from support.fake_runner import FakeRunner

GPU = Gpu(name="NVIDIA L4", compute_capability="8.9")


def with_runners(monkeypatch: pytest.MonkeyPatch, runners: Mapping[str, FakeRunner]) -> None:
    """Open a fake runner for each file of that name."""
    monkeypatch.setattr(requirements, "find_gpus", lambda: ((GPU,), ""))

    def open_runner(path: Path, library: str) -> FakeRunner:
        runner = runners[path.name]
        runner.library = library
        return runner

    monkeypatch.setattr(run, "open_runner", open_runner)
