"""The code that a worker runs: it runs samples of one calibration, on a model that stays open between tasks."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from qdqtool.errors import CapabilityError, QdqError
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.io.load import load_model
from qdqtool.models.graph.io.model_file import model_digest
from qdqtool.models.graph.io.offload import offloaded
from qdqtool.models.running.custom_operators import CustomOperators, require_libraries, running_with
from qdqtool.numerics.dtypes import Array
from qdqtool.quantization.cluster.machine import PROCESSOR, Machine, require_versions, this_machine
from qdqtool.quantization.cluster.model_files import ModelFiles, find_copy
from qdqtool.quantization.planning.existing_pairs import settle_model
from qdqtool.quantization.planning.recipe import Recipe, with_fixed_inputs
from qdqtool.quantization.preparation.calibration import calibrated_values, runs_for
from qdqtool.quantization.preparation.prepare import prepare_as_recorded
from qdqtool.quantization.ranges import calibrators
from qdqtool.quantization.ranges.collector import RangeCollector
from qdqtool.quantization.ranges.types import CalibrationRecord, RangesPart, TensorKey, TensorRange
from qdqtool.quantization.statistics.float_runs import FloatRuns
from qdqtool.samples.feeds import Feeds
from qdqtool.samples.report import DataDescription
from qdqtool.samples.sample import Sample


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The data that all tasks of one calibration share.

    Attributes:
        name: Unique name of the calibration.
        files: The files of the model as it was given.
        recipe: Mode, target and options of the quantization.
        record: The record of the calibration: the steps that prepare the model, and the digest of the prepared model.
        data: The origin of the samples, for messages.
        machine: The machine of the client.
        operators: The libraries and stand-ins of the client. Workers find a library at the same path.
    """

    name: str
    files: ModelFiles
    recipe: Recipe
    record: CalibrationRecord
    data: DataDescription
    machine: Machine
    operators: CustomOperators


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Consecutive samples of the data, from number ``start``; ``held`` are the numbers of hold-out samples."""

    start: int
    samples: Sequence[Mapping[str, Array]]
    digests: Sequence[bytes]
    held: Collection[int]

    @property
    def stop(self) -> int:
        """One past the number of the last sample."""
        return self.start + len(self.samples)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRanges:
    """The ranges of one batch, with and without hold-out samples; tensors that could not be read, with the reason."""

    worker: str
    processor: str
    tensors: Mapping[TensorKey, TensorRange]
    choosing: Mapping[TensorKey, TensorRange]
    unreadable: Mapping[TensorKey, str]


@dataclass(frozen=True, slots=True)
class ModelAbsent:
    """The answer of a worker that does not have the model."""

    worker: str


Answer = BatchRanges | ModelAbsent | QdqError
"""The result of a task. An error of the model or the data is the same on every worker, so Dask need not retry."""


def run_batch(job: Job, batch: Batch) -> Answer:
    """Run samples on the worker of this process."""
    from distributed import get_worker

    worker = get_worker()
    try:
        return _run(job, batch, worker.address, Path(worker.local_directory))
    except QdqError as error:
        return error


def _run(job: Job, batch: Batch, worker: str, local: Path) -> BatchRanges | ModelAbsent:
    machine = this_machine()
    require_versions(worker, machine, job.machine)
    # ONNX Runtime uses all CPUs for one sample; a second sample at the same time would only take memory.
    with _ONE_AT_A_TIME, running_with(job.operators):
        require_libraries(job.operators)
        folder = _folder_of_open(job.files) or find_copy(job.files, local)
        if folder is None:
            return ModelAbsent(worker)
        collector = _opened(job, folder, worker).collect(batch)
    return BatchRanges(
        worker=worker,
        processor=str(machine[PROCESSOR]),
        tensors=collector.ranges,
        choosing=collector.ranges if collector.choosing is None else collector.choosing,
        unreadable=collector.unreadable,
    )


class OpenModel:
    """A prepared model with its session.

    Raises:
        CapabilityError: The worker prepares another model than the client prepared.
    """

    def __init__(self, job: Job, folder: Path, worker: str) -> None:
        self.job, self.folder = job, folder
        settled = settle_model(offloaded(load_model(job.files.model_in(folder))), job.recipe)
        fixed = with_fixed_inputs(settled.model, settled.recipe)
        prepared = prepare_as_recorded(fixed, job.record.preparation, settled.recipe.preparation).model
        if model_digest(prepared) != job.record.model_sha256:
            raise CapabilityError(
                f"worker {worker} prepares another model than this machine: its libraries round differently",
                hint="use workers with the processor and the packages of this machine, or `--shard` and "
                "`qdqtool merge`",
            )
        self._runs: FloatRuns = runs_for(settled.recipe)
        self._index: ModelIndex = self._runs.index_of(prepared)
        self._values = calibrated_values(self._index, settled.recipe)

    def collect(self, batch: Batch) -> RangeCollector:
        """Run samples and return their ranges."""
        histograms = calibrators.get(self.job.recipe.method).needs_histogram
        collector = RangeCollector(self._index, self._values, self._runs, histograms=histograms, held=batch.held)
        feeds = Feeds(_FromNumber(batch), self.job.data)
        digests = [*itertools.repeat(b"", batch.start), *batch.digests]
        for _ in collector.chunks(feeds, digests, RangesPart(batch.start, batch.stop, batch.start)):
            pass
        return collector

    def close(self) -> None:
        """Close the session."""
        self._runs.close()


@dataclass(frozen=True, slots=True)
class _FromNumber:
    """The samples of a batch at their numbers in the data; the samples before the batch are empty, and never run."""

    batch: Batch

    def __iter__(self) -> Iterator[Sample]:
        yield from itertools.repeat(Sample({}), self.batch.start)
        yield from map(Sample, self.batch.samples)


_ONE_AT_A_TIME = threading.Lock()
_open: OpenModel | None = None


def _folder_of_open(files: ModelFiles) -> Path | None:
    """Return the folder of the open model if it has these files, which then need not be read again; else None."""
    return _open.folder if _open is not None and _open.job.files == files else None


def _opened(job: Job, folder: Path, worker: str) -> OpenModel:
    """Return the open model of a calibration; a worker keeps only one model open."""
    global _open  # noqa: PLW0603  a worker process has no other place for what lasts from one task to the next
    if _open is None or _open.job.name != job.name:
        _close()
        _open = OpenModel(job, folder, worker)
    return _open


def _close() -> None:
    global _open  # noqa: PLW0603  as above
    if _open is not None:
        _open.close()
    _open = None


def close_model(files: ModelFiles) -> None:
    """Close the open model of this process if it has these files."""
    with _ONE_AT_A_TIME:
        if _open is not None and _open.job.files == files:
            _close()
