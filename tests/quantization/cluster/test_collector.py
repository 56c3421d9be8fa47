"""A calibration on a cluster gives the bytes of one run, whichever workers come and go."""

import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from support.command import qdqtool_process
from support.dask_cluster import DaskCluster, dask_cluster
from support.small import conv_model

from qdqtool.errors import CapabilityError, UsageError
from qdqtool.jobs.calibrate import CalibrationPlace, calibrate, calibrate_to_file
from qdqtool.quantization.cluster import collector as collector_module
from qdqtool.quantization.cluster.task import Batch
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.quantization.ranges.shard import Shard
from qdqtool.quantization.ranges.types import CHUNK

distributed = pytest.importorskip("distributed")
COUNT = 12 * CHUNK + 3
OWN_FOLDER = Path("/proc/self/cwd")
"""Another folder for each process, as on different machines."""


def write_data(path: Path, count: int = COUNT) -> Path:
    """Samples whose magnitudes grow, so that histograms are widened on the way."""
    x = np.random.default_rng(5).normal(size=(count, 3, 8, 8)).astype(np.float32)
    np.savez(path, x=x * np.linspace(0.1, 9, count, dtype=np.float32)[:, None, None, None])
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cluster")
    onnx.save(conv_model(), folder / "m.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0)
    write_data(folder / "data.npz")
    return folder


@pytest.fixture(scope="module")
def whole(folder: Path) -> bytes:
    """What one run gives."""
    calibrate_to_file(folder / "m.onnx", folder / "data.npz", folder / "whole.json")
    return (folder / "whole.json").read_bytes()


@pytest.fixture(scope="module")
def cluster(folder: Path) -> Iterator[DaskCluster]:
    with dask_cluster(folder / "dask") as found:
        yield found


def killer(process: subprocess.Popen[bytes], then: Callable[[], object] = lambda: None) -> Callable[[int, int], None]:
    """Progress that kills a process when the first samples are done."""

    def progress(done: int, total: int) -> None:
        if done == CHUNK:
            assert total == COUNT
            process.kill()
            process.wait()
            then()

    return progress


@pytest.mark.slow(reason="starts workers")
def test_two_workers_give_the_bytes_of_one_run_and_so_does_one_after_the_other_is_killed(
    cluster: DaskCluster, folder: Path, whole: bytes, tmp_path: Path
):
    first, second = cluster.add_worker(), cluster.add_worker()
    place = CalibrationPlace(dask=cluster.address)
    arguments = (folder / "m.onnx", folder / "data.npz")

    report = calibrate_to_file(*arguments, tmp_path / "two.json", place=place)
    assert (report.cluster.lost, report.cluster.sent, report.cluster.other_processors) == ((), 0, ())
    assert report.cluster.workers in {1, 2}, "a busy machine may leave all to one"
    assert (tmp_path / "two.json").read_bytes() == whole

    report = calibrate_to_file(*arguments, tmp_path / "one.json", progress=killer(first), place=place)
    assert len(report.cluster.lost) == 1
    assert (tmp_path / "one.json").read_bytes() == whole

    # A shard on a cluster is the shard that one process makes.
    shard = Shard(2, 3)
    assert calibrate(*arguments, place=replace(place, shard=shard)) == calibrate(
        *arguments, place=CalibrationPlace(shard=shard)
    )

    # Faults of data are those of one run.
    broken = np.load(folder / "data.npz")["x"]
    broken[40, 0, 0, 0] = -np.inf
    np.savez(tmp_path / "broken.npz", x=broken)
    with pytest.raises(UsageError) as alone:
        calibrate(folder / "m.onnx", tmp_path / "broken.npz", Recipe(method="max"))
    with pytest.raises(UsageError) as remote:
        calibrate(folder / "m.onnx", tmp_path / "broken.npz", Recipe(method="max"), place=place)
    assert "on sample 40" in alone.value.message
    assert (remote.value.message, remote.value.hint) == (alone.value.message, alone.value.hint)

    second.kill()
    second.wait()


@pytest.mark.slow(reason="starts workers")
@pytest.mark.skipif(not OWN_FOLDER.exists(), reason="takes the /proc of Linux")
def test_workers_that_do_not_see_the_model_get_it_also_those_that_come_later(
    cluster: DaskCluster, folder: Path, whole: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(folder)
    first = cluster.add_worker()
    later: list[subprocess.Popen[bytes]] = []
    progress = killer(first, then=lambda: later.append(cluster.add_worker(wait=False)))
    monkeypatch.setattr(collector_module, "GONE_SECONDS", 60.0)

    arguments = OWN_FOLDER / "m.onnx", folder / "data.npz", tmp_path / "r.json"
    report = calibrate_to_file(*arguments, progress=progress, place=CalibrationPlace(dask=cluster.address))

    assert report.cluster is not None
    assert (report.cluster.workers, report.cluster.sent, len(report.cluster.lost)) == (2, 2, 1)
    assert (tmp_path / "r.json").read_bytes() == whole
    later[0].kill()
    later[0].wait()


def require_resumed(folder: Path, output: Path, whole: bytes) -> None:
    """Require that a calibration goes on where it was stopped, to the bytes of one run."""
    resumed = calibrate_to_file(folder / "m.onnx", folder / "data.npz", output)
    assert CHUNK <= resumed.resumed < COUNT
    assert output.read_bytes() == whole


@pytest.mark.slow(reason="a cluster whose workers end")
def test_where_all_workers_are_gone_the_samples_that_are_done_are_kept(
    cluster: DaskCluster, folder: Path, whole: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(collector_module, "GONE_SECONDS", 1.0)
    # Some batches are done when their worker is killed, and their ranges are lost with it.
    monkeypatch.setattr(collector_module, "FETCH_SECONDS", 2.0)
    progress, place = killer(cluster.add_worker()), CalibrationPlace(dask=cluster.address)
    arguments = folder / "m.onnx", folder / "data.npz", tmp_path / "r.json"
    with pytest.raises(CapabilityError, match=r"tcp://.* lost all workers, and none reconnected within 1 s"):
        calibrate_to_file(*arguments, progress=progress, place=place)
    require_resumed(folder, tmp_path / "r.json", whole)


@pytest.mark.slow(reason="starts workers")
def test_local_workers_give_the_bytes_of_one_run(folder: Path, whole: bytes, tmp_path: Path):
    done = qdqtool_process(
        "calibrate", folder / "m.onnx", "--calib-data", folder / "data.npz", "--dask", "local:2", "-o", tmp_path / "r"
    )

    assert (done.code, done.err) == (0, "")
    assert "of local:2" in done.out
    assert (tmp_path / "r").read_bytes() == whole


@pytest.mark.slow(reason="starts workers")
def test_where_the_scheduler_is_gone_the_samples_that_are_done_are_kept(folder: Path, whole: bytes, tmp_path: Path):
    arguments = folder / "m.onnx", folder / "data.npz", tmp_path / "r.json"
    with dask_cluster(tmp_path / "dask") as cluster:
        cluster.add_worker()
        progress, place = killer(cluster.processes[0]), CalibrationPlace(dask=cluster.address)
        with pytest.raises(CapabilityError, match=r"scheduler tcp://\S+ no longer answers"):
            calibrate_to_file(*arguments, progress=progress, place=place)
    require_resumed(folder, tmp_path / "r.json", whole)


def future(error: Exception, *, status: str = "error") -> Any:
    """A task whose result cannot be fetched."""

    def result(timeout: float) -> None:
        raise error

    return SimpleNamespace(result=result, cancelled=lambda: status == "cancelled", status=status)


KILLED, FULL = distributed.KilledWorker("task", None, 3), OSError(28, "No space left")


@pytest.mark.parametrize(
    ("failed", "message"),
    [
        (future(KILLED), "samples 16 to 17 ended every worker process that ran them"),
        (future(FULL), r"samples 16 to 17 fail on the workers: OSError: .*No space left"),
        (future(RuntimeError("lost"), status="cancelled"), "scheduler tcp://s:1 no longer answers"),
    ],
    ids=["crash", "disk", "cancelled"],
)
def test_a_task_that_fails_for_a_reason_of_the_workers_is_a_lacking_machine(failed: Any, message: str):
    batch = Batch(start=16, samples=[{}, {}], digests=[b"", b""], held=())
    with pytest.raises(CapabilityError, match=message) as caught:
        collector_module._result(batch, failed, "tcp://s:1")
    assert caught.value.hint


def test_a_result_that_is_lost_with_its_worker_is_waited_for_again():
    batch = Batch(start=16, samples=[{}, {}], digests=[b"", b""], held=())
    assert collector_module._result(batch, future(TimeoutError(), status="pending"), "tcp://s:1") is None
    with pytest.raises(CapabilityError, match="fail on the workers: TimeoutError"):
        collector_module._result(batch, future(TimeoutError()), "tcp://s:1")
