"""What a worker runs gives the ranges of these samples, and refuses another model; no cluster is needed for it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from qdqtool.errors import CapabilityError, UsageError
from qdqtool.jobs.calibrate import calibrate
from qdqtool.models.report import CustomLibrary
from qdqtool.models.running.custom_operators import CustomOperators
from qdqtool.quantization.cluster import collector, task
from qdqtool.quantization.cluster.collector import ClusterCollector
from qdqtool.quantization.cluster.machine import this_machine
from qdqtool.quantization.cluster.model_files import files_of
from qdqtool.quantization.cluster.task import Batch, BatchRanges, Job, ModelAbsent
from qdqtool.quantization.planning.options import Preparation
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.quantization.ranges.types import CHUNK, RangesPart
from qdqtool.samples.feeds import Feeds
from qdqtool.samples.report import DataDescription
from qdqtool.samples.sample import Sample, sample_digest

RECIPE = Recipe(method="max", preparation=Preparation(equalize=False, smoothquant=None, bias_correction=False))
COUNT = CHUNK + 4


def images(count: int = COUNT) -> np.ndarray:
    return np.random.default_rng(3).normal(size=(count, 3, 8, 8)).astype(np.float32)


def job_of(model: Path) -> Job:
    np.savez(model.parent / "data.npz", x=images())
    record = calibrate(model, model.parent / "data.npz", RECIPE).record
    with files_of(model) as files:
        return Job(
            name="one",
            files=files,
            recipe=RECIPE,
            record=record,
            data=DataDescription("data.npz", COUNT, None, {}),
            machine=this_machine(),
            operators=CustomOperators(),
        )


def test_a_worker_without_the_library_of_the_client_says_so(model: Path, tmp_path: Path):
    operators = CustomOperators((CustomLibrary(library=str(tmp_path / "absent.so"), sha256="0"),))
    job = replace(job_of(model), operators=operators)
    with pytest.raises(UsageError, match="no such file"):
        task._run(job, batch_of(CHUNK, COUNT), "tcp://w:1", tmp_path / "worker")


def batch_of(start: int, stop: int, held: frozenset[int] = frozenset()) -> Batch:
    samples = [{"x": image[None]} for image in images()[start:stop]]
    return Batch(start=start, samples=samples, digests=[sample_digest(each) for each in samples], held=held)


def test_the_ranges_of_a_batch_are_those_of_its_samples(model: Path, tmp_path: Path):
    job, values = job_of(model), images()[CHUNK:]
    found = task._run(job, batch_of(CHUNK, COUNT, frozenset({CHUNK})), "tcp://w:1", tmp_path / "worker")
    task.close_model(job.files)

    assert isinstance(found, BatchRanges)
    assert found.worker == "tcp://w:1"
    x, chosen = found.tensors[(), "x"], found.choosing[(), "x"]
    assert (x.min, x.max, x.count) == (values.min(), values.max(), values.size)
    assert (chosen.min, chosen.max, chosen.count) == (values[1:].min(), values[1:].max(), values[1:].size)


def test_without_held_samples_all_of_a_batch_choose(model: Path, tmp_path: Path):
    job = job_of(model)
    found = task._run(job, batch_of(0, 3), "tcp://w:1", tmp_path / "worker")
    task.close_model(job.files)
    assert isinstance(found, BatchRanges)
    assert found.choosing == found.tensors


def test_a_worker_without_the_model_says_so(model: Path, tmp_path: Path):
    job = job_of(model)
    model.unlink()
    assert task._run(job, batch_of(0, 3), "tcp://w:1", tmp_path / "worker") == ModelAbsent("tcp://w:1")


def test_a_worker_that_prepares_another_model_refuses(model: Path, tmp_path: Path):
    job = job_of(model)
    other = replace(job, record=replace(job.record, model_sha256="0" * 64))
    with pytest.raises(CapabilityError, match="worker tcp://w:1 prepares another model than this machine"):
        task._run(other, batch_of(0, 3), "tcp://w:1", tmp_path / "worker")


def test_a_worker_with_other_versions_refuses_also_when_it_comes_late(model: Path, tmp_path: Path):
    job = job_of(model)
    other = replace(job, machine={**job.machine, "numpy": "0.1"})
    with pytest.raises(CapabilityError, match=r"worker tcp://w:1 has numpy .* and this machine has numpy 0\.1"):
        task._run(other, batch_of(0, 3), "tcp://w:1", tmp_path / "worker")


@pytest.mark.parametrize(
    ("size", "done", "stop", "bounds"),
    [
        (1 << 20, 0, COUNT, [(0, 16), (16, 20)]),
        (1 << 20, 5, 18, [(5, 16), (16, 18)]),
        (images(1).nbytes, 14, COUNT, [(n, n + 1) for n in range(14, COUNT)]),
        (3 * images(1).nbytes, 12, COUNT, [(12, 15), (15, 16), (16, 19), (19, 20)]),
        (1 << 20, COUNT, COUNT, []),
    ],
)
def test_batches_are_chunks_or_less_where_samples_are_large(
    size: int, done: int, stop: int, bounds: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(collector, "BATCH_BYTES", size)
    samples = [Sample({"x": image[None]}) for image in images()]
    digests = [bytes([number]) for number in range(COUNT)]
    place = type("Place", (), {"cluster": None})()
    made = ClusterCollector(place, None, [], held={13, 17})  # type: ignore[arg-type]
    feeds = Feeds(samples, DataDescription("data", COUNT, None, {}))

    found = list(made._batches(feeds, digests, RangesPart(0, stop, done)))

    assert [(batch.start, batch.stop) for batch in found] == bounds
    for batch in found:
        assert [digests.index(digest) for digest in batch.digests] == list(range(batch.start, batch.stop))
        assert set(batch.held) == {13, 17} & set(range(batch.start, batch.stop))
        assert np.array_equal(batch.samples[0]["x"], images()[batch.start][None])
