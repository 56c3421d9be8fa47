"""The bench job and its command on fake runners."""

import json

import numpy as np
import pytest
from support.command import qdqtool
from support.fake_runner import IMAGE, FakeRunner
from support.gpu_job import with_runners

from qdqtool.engines.gpu.runner import LayerTime
from qdqtool.engines.gpu.speedup_gate import SpeedupGate
from qdqtool.engines.gpu.timing import TimingOptions
from qdqtool.errors import CapabilityError, UsageError
from qdqtool.jobs.bench import bench_engine
from qdqtool.samples.signature import InputSpec

SHORT = TimingOptions(rounds=2, runs=5, warm_up=1, profiled=7)
INT8 = (LayerTime("conv int8", ("conv", "x_Q"), 0.4), LayerTime("head", ("head",), 0.1))
FLOAT = (LayerTime("conv fp32", ("conv",), 0.3), LayerTime("head", ("head",), 0.7))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name in ("int8.engine", "float.engine"):
        (tmp_path / name).write_bytes(b"vtrt")
    np.savez(tmp_path / "data.npz", x=np.ones((4, 3), np.float32))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def runners(folder, monkeypatch):
    calls = []
    found = {
        "int8.engine": FakeRunner(times=[0.5, 0.7] * 500, layers=INT8, calls=calls, name="int8"),
        "float.engine": FakeRunner(times=[1.0, 1.2, 1.1] * 500, layers=FLOAT, calls=calls, name="float"),
    }
    with_runners(monkeypatch, found)
    return found


def test_times_are_the_percentiles_of_all_rounds(runners):
    report = bench_engine("int8.engine", timing=SHORT)
    times = np.array([0.5, 0.7] * 5)
    found = report.engine.times
    assert (found.p50, found.p90) == pytest.approx(tuple(np.percentile(times, [50, 90])))
    assert (found.count, found.p99) == (10, None)
    assert report.passed
    assert (report.against, report.speedup, report.gate, report.comparison) == (None, None, None, None)
    assert report.data.source == "random"


def test_float_and_quantized_take_turns_and_are_profiled_at_the_end(runners):
    bench_engine("int8.engine", against="float.engine", timing=SHORT)
    assert runners["int8.engine"].calls == [
        ("int8", "time", 1, 5),
        ("float", "time", 1, 5),
        ("float", "time", 1, 5),
        ("int8", "time", 1, 5),
        ("int8", "profile", 7),
        ("float", "profile", 7),
        ("float", "close"),
        ("int8", "close"),
    ]


@pytest.mark.parametrize(("limit", "passed"), [(1.5, True), (2.5, False)])
def test_the_gate_names_the_layers_that_are_slower(limit, passed, runners):
    report = bench_engine("int8.engine", against="float.engine", timing=SHORT, speedup=SpeedupGate(limit))
    assert report.speedup.ratio == pytest.approx(np.median([1.0, 1.2, 1.1] * 3 + [1.0]) / 0.6)
    assert report.passed == report.gate.passed == passed
    assert [group.nodes for group in report.gate.slower_layers] == ([] if passed else [("conv",)])


def test_a_sample_is_the_first_of_the_data_in_the_type_of_each_engine(runners):
    runners["float.engine"].inputs = (InputSpec("x", np.dtype(np.float16), (1, 3)),)
    report = bench_engine("int8.engine", against="float.engine", data="data.npz", timing=SHORT)
    assert (report.data.source, report.data.samples) == ("data.npz", 1)


def test_other_networks_are_refused_before_anything_is_timed(runners):
    runners["float.engine"].inputs = (InputSpec("z", IMAGE.dtype, IMAGE.shape),)
    with pytest.raises(UsageError, match="different inputs"):
        bench_engine("int8.engine", against="float.engine", timing=SHORT)
    assert not any("time" in call for call in runners["int8.engine"].calls)


def test_layers_that_are_not_known_are_said_to_be(runners, capsys):
    runners["float.engine"].layers = ()
    report = bench_engine("int8.engine", against="float.engine", timing=SHORT, speedup=SpeedupGate(9))
    assert report.comparison is None
    assert report.gate.slower_layers == ()


def test_a_gate_without_a_second_engine_is_refused(folder):
    with pytest.raises(UsageError, match="--speedup needs a second engine") as failed:
        bench_engine("int8.engine", speedup=SpeedupGate(1.2))
    assert "`--against FLOAT.engine`" in failed.value.hint


def test_without_a_gpu_nothing_is_read():
    from qdqtool.engines.tensorrt.gpus import find_gpus

    if find_gpus()[0]:
        pytest.skip("there is a GPU")
    with pytest.raises(CapabilityError, match="no NVIDIA GPU"):
        bench_engine("absent.engine")


def test_the_command_ends_with_1_where_the_gate_is_missed(runners):
    words = ("bench", "int8.engine", "--against", "float.engine", "--rounds", "2", "--runs", "4")
    done = qdqtool(*words, "--speedup", ">=1.2x")
    assert done.code == 0
    assert "gate >=1.2x: passed" in done.out
    done = qdqtool(*words, "--speedup", ">=4x", "--output-format", "json")
    told = json.loads(done.out)
    assert (done.code, told["passed"]) == (1, False)
    (slower,) = told["gate"]["slower_layers"]
    assert slower["nodes"] == ["conv"]
    assert (slower["milliseconds"], slower["against_milliseconds"]) == (0.4, 0.3)
    assert told["engine"]["times"]["count"] == 8
    assert qdqtool(*words, "--speedup", ">=4", "--output-format", "json").code == 2
