"""The run job and its command on fake runners."""

import json

import numpy as np
import pytest
from support.command import qdqtool
from support.fake_runner import FakeRunner
from support.gpu_job import with_runners

from qdqtool.errors import CapabilityError, UsageError
from qdqtool.jobs.run import run_engine
from qdqtool.samples.signature import InputSpec

ROWS = np.arange(15, dtype=np.float32).reshape(5, 3)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    np.savez(tmp_path / "data.npz", x=ROWS)
    (tmp_path / "e.engine").write_bytes(b"vtrt")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_outputs_of_all_samples_are_written(folder, monkeypatch):
    runner = FakeRunner()
    with_runners(monkeypatch, {"e.engine": runner})
    told = []
    report = run_engine("e.engine", "data.npz", "o.npz", progress=lambda *each: told.append(each))
    with np.load("o.npz") as stored:
        assert stored.files == ["y"]
        assert np.array_equal(stored["y"], 2 * ROWS)
    assert report.outputs == {"y": (5, 3)}
    assert (report.engine.library, report.engine.gpu.name, report.data.samples) == ("tensorrt-rtx", "NVIDIA L4", 5)
    assert told == [(each, 5) for each in range(1, 6)]
    assert runner.calls[-1] == ("", "close")


def test_rows_that_fill_up_the_last_batch_are_left_out(folder, monkeypatch):
    batch = FakeRunner(inputs=(InputSpec("x", np.dtype(np.float32), (2, 3)),))
    with_runners(monkeypatch, {"e.engine": batch})
    run_engine("e.engine", "data.npz", "o.npz")
    with np.load("o.npz") as stored:
        assert np.array_equal(stored["y"], 2 * ROWS)
    assert batch.calls.count(("", "run")) == 3


def test_an_engine_that_fails_leaves_the_output_as_it_was(folder, monkeypatch):
    def fail(sample):
        if sample["x"][0, 0] > 8:
            raise UsageError("it does not fit")
        return {"y": sample["x"]}

    with_runners(monkeypatch, {"e.engine": FakeRunner(fail)})
    (folder / "o.npz").write_bytes(b"before")
    with pytest.raises(UsageError, match="does not fit"):
        run_engine("e.engine", "data.npz", "o.npz")
    assert (folder / "o.npz").read_bytes() == b"before"
    assert sorted(path.name for path in folder.iterdir()) == ["data.npz", "e.engine", "o.npz"]


def test_data_that_does_not_fit_the_engine_is_refused_before_it_runs(folder, monkeypatch):
    runner = FakeRunner(inputs=(InputSpec("z", np.dtype(np.float32), (1, 3)),))
    with_runners(monkeypatch, {"e.engine": runner})
    with pytest.raises(UsageError, match="'x' is no input of the model; its inputs: z"):
        run_engine("e.engine", "data.npz", "o.npz")
    assert ("", "run") not in runner.calls


def test_inputs_are_not_overwritten(folder, monkeypatch):
    with_runners(monkeypatch, {"e.engine": FakeRunner()})
    for name in ("data.npz", "e.engine"):
        with pytest.raises(UsageError, match="is also an input"):
            run_engine("e.engine", "data.npz", name)


def test_without_a_gpu_nothing_is_read():
    from qdqtool.engines.tensorrt.gpus import find_gpus

    if find_gpus()[0]:
        pytest.skip("there is a GPU")
    with pytest.raises(CapabilityError, match="no NVIDIA GPU"):
        run_engine("absent.engine", "absent.npz", "absent/o.npz")


def test_the_command_prints_what_ran_and_takes_a_part_of_the_samples(folder, monkeypatch):
    with_runners(monkeypatch, {"e.engine": FakeRunner()})
    words = ("run", "e.engine", "--data", "data.npz", "-o", "o.npz")
    done = qdqtool(*words, "--samples", "2")
    assert (done.code, done.out.splitlines()) == (
        0,
        [
            "run e.engine",
            "  with     tensorrt-rtx 1.7.1 on NVIDIA L4, compute capability 8.9",
            "  data     data.npz: 2 samples",
            "  output   y: 2x3",
            "wrote o.npz",
        ],
    )
    done = qdqtool(*words, "--output-format", "json")
    told = json.loads(done.out)
    assert (done.code, told["outputs"]) == (0, {"y": [5, 3]})
    assert told["engine"]["gpu"] == {"name": "NVIDIA L4", "compute_capability": "8.9"}


def test_the_command_needs_samples(folder):
    done = qdqtool("run", "e.engine", "-o", "o.npz")
    assert done.code == 2
    assert "hint: add `--data DATA`" in done.err
