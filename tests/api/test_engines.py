"""The functions that run engines take each option as a keyword, and hand it to the job."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qdqtool
from qdqtool.engines.gpu.timing import TimingOptions
from qdqtool.errors import ArgumentError, UsageError
from qdqtool.jobs import bench, run


def test_times_are_asked_for_in_keywords(monkeypatch: pytest.MonkeyPatch):
    asked: dict[str, Any] = {}
    monkeypatch.setattr(bench, "bench_engine", lambda engine, **given: asked.update(engine=engine, **given))
    counts = {"rounds": 2, "runs": 3, "warm_up": 0, "profiled": 4}
    qdqtool.bench_engine("a.engine", against="b.engine", data="d.npz", speedup=">=1.5x", **counts)  # type: ignore[arg-type]

    assert asked["timing"] == TimingOptions(**counts)
    assert (asked["engine"], asked["against"], asked["data"]) == ("a.engine", "b.engine", Path("d.npz"))
    assert asked["speedup"].ratio == 1.5


def test_a_number_that_times_nothing_is_refused():
    with pytest.raises(UsageError, match="profiled is 0; it must be at least 1"):
        qdqtool.bench_engine("a.engine", profiled=0)


def test_samples_of_a_run_are_data_of_any_kind(monkeypatch: pytest.MonkeyPatch):
    asked: list[Any] = []
    monkeypatch.setattr(run, "run_engine", lambda *given, **_: asked.extend(given))
    qdqtool.run_engine("a.engine", {"x": np.zeros((4, 2), np.float32)}, "out.npz", samples=3)

    engine, data, output = asked
    assert (engine, output, data.samples) == ("a.engine", "out.npz", 3)
    with pytest.raises(ArgumentError, match="smaples"):
        qdqtool.run_engine("a.engine", "d.npz", "out.npz", smaples=3)  # type: ignore[call-arg]
