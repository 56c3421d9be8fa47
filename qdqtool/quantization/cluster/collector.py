"""Collect the ranges of a calibration on a cluster: samples go out in batches, ranges come back and are merged."""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qdqtool.errors import CapabilityError, QdqError
from qdqtool.models.graph.model import Model
from qdqtool.models.running.custom_operators import active
from qdqtool.quantization.cluster.connection import GONE_SECONDS, Cluster, connected, scheduler_gone
from qdqtool.quantization.cluster.machine import PROCESSOR, ClusterUsed, this_machine
from qdqtool.quantization.cluster.model_files import ModelFiles, files_of, find_copy, remove_copy, store_piece
from qdqtool.quantization.cluster.task import Answer, Batch, BatchRanges, Job, ModelAbsent, close_model, run_batch
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.quantization.ranges.collector import CollectedRanges
from qdqtool.quantization.ranges.types import CHUNK, CalibrationRecord, RangesPart, TensorKey
from qdqtool.samples.feeds import Feeds, Progress
from qdqtool.samples.sample import Sample

if TYPE_CHECKING:
    from distributed import Future

BATCH_BYTES = 64 << 20
"""Size in bytes at which a batch of samples is full: the scheduler keeps a few batches for each worker in memory."""
AHEAD = 3
"""Number of batches that each worker has at a time: one runs, the others wait."""
FETCH_SECONDS = 30.0
"""Time limit for sending the ranges of a batch from a worker to this machine: some 20 MB for a large model."""
_POLL_SECONDS = 1.0


class CalibrationCluster:
    """A cluster that calibrates one model."""

    def __init__(self, cluster: Cluster, files: ModelFiles, recipe: Recipe) -> None:
        self.cluster, self.files, self.recipe = cluster, files, recipe
        self.machine = this_machine()
        self.processors: dict[str, str] = {}
        self._sent: set[str] = set()

    def send_model(self, workers: list[str]) -> None:
        """Send the model to each worker of a list that does not have it yet.

        Raises:
            CapabilityError: A worker cannot store it.
        """
        found = self.cluster.call(_find, self.files, workers=workers)
        absent = [worker for worker, has in found.items() if not has]
        if not absent:
            return
        for location, offset, data in self.files.pieces():
            self.cluster.call(_store, self.files, location, offset, data, workers=absent)
        found = self.cluster.call(_find, self.files, workers=absent)
        broken = [worker for worker, has in found.items() if not has]
        if broken:
            raise CapabilityError(
                f"worker {broken[0]} received another model than the one on this machine",
                hint="do not change the model during the calibration",
            )
        self._sent.update(found)

    def remove_model(self, *, wait: bool) -> None:
        """Close the model on all workers and remove the copies; each worker does so after its current batch."""
        if not wait:
            self.cluster.tell(_remove, self.files)
            return
        with contextlib.suppress(QdqError):
            self.cluster.call(_remove, self.files)

    def collector(
        self, record: CalibrationRecord, keys: Sequence[TensorKey], held: Collection[int]
    ) -> ClusterCollector:
        """Return the collector of a calibration; the arguments are those of ``calibration_run.Elsewhere``."""
        return ClusterCollector(self, record, keys, held)

    def used(self) -> ClusterUsed:
        """Return the facts about the cluster for a report."""
        there = set(self.cluster.workers())
        others = set(self.processors.values()) - {self.machine[PROCESSOR]}
        return ClusterUsed(
            scheduler=self.cluster.name,
            workers=len(self.processors),
            lost=tuple(sorted(self.cluster.seen - there)),
            sent=len(self._sent),
            other_processors=tuple(sorted(others)),
        )


@contextlib.contextmanager
def calibration_cluster(scheduler: str, model: Path | Model, recipe: Recipe) -> Iterator[CalibrationCluster]:
    """Connect to a cluster and send a model to its workers, for the duration of a block.

    Args:
        scheduler: As :func:`qdqtool.quantization.cluster.connection.connected`.
        model: The model as it was given.
        recipe: Mode, target and options of the quantization.
    """
    with files_of(model) as files, connected(scheduler) as cluster:
        found = CalibrationCluster(cluster, files, recipe)
        try:
            found.send_model(cluster.workers())
            yield found
        except BaseException:
            # A batch may take longer than the time that Ctrl-C leaves (supervisor.GRACE).
            found.remove_model(wait=False)
            raise
        found.remove_model(wait=True)


class ClusterCollector(CollectedRanges):
    """The ranges of some tensors, collected by workers; the interface is that of ``RangeCollector``."""

    def __init__(
        self, place: CalibrationCluster, record: CalibrationRecord, keys: Sequence[TensorKey], held: Collection[int]
    ) -> None:
        self._place, self._cluster, self._record = place, place.cluster, record
        self._held = frozenset(held)
        super().__init__(keys, holds_back=bool(self._held))

    def chunks(
        self, feeds: Feeds, digests: Sequence[bytes], part: RangesPart, progress: Progress | None = None
    ) -> Iterator[int]:
        """Run samples like ``RangeCollector.chunks``, and yield after each batch, in the order of the data."""
        job = Job(
            name=uuid.uuid4().hex,
            files=self._place.files,
            recipe=self._place.recipe,
            record=self._record,
            data=feeds.description,
            machine=self._place.machine,
            operators=active(),
        )
        batches = self._batches(feeds, digests, part)
        waiting: deque[tuple[Batch, Future[Answer]]] = deque()
        workers = len(self._cluster.workers())
        try:
            while True:
                for batch in islice(batches, max(AHEAD * workers - len(waiting), 0)):
                    waiting.append((batch, self._cluster.submit(run_batch, job, batch)))
                if not waiting:
                    return
                batch, future = waiting[0]
                answer = self._answer(batch, future)
                if isinstance(answer, ModelAbsent):
                    # This worker joined later, or came back under another address.
                    self._place.send_model([answer.worker])
                    waiting[0] = (batch, self._cluster.submit(run_batch, job, batch))
                    continue
                waiting.popleft()
                self._place.processors[answer.worker] = answer.processor
                self.merge(answer.tensors, answer.choosing)
                self.unreadable.update(answer.unreadable)
                workers = max(len(self._cluster.workers()), 1)
                if progress is not None:
                    progress(batch.stop - part.start, part.stop - part.start)
                yield batch.stop
        finally:
            self._cluster.cancel([future for _, future in waiting])

    def _batches(self, feeds: Feeds, digests: Sequence[bytes], part: RangesPart) -> Iterator[Batch]:
        """Divide samples into batches: whole chunks unless they are too large."""
        samples: list[Sample] = []
        size = 0
        for number, sample in islice(enumerate(feeds), part.done, part.stop):
            samples.append(sample)
            size += sum(array.nbytes for array in sample.values())
            if (number + 1) % CHUNK == 0 or number + 1 == part.stop or size >= BATCH_BYTES:
                start = number + 1 - len(samples)
                yield Batch(
                    start=start,
                    samples=[dict(each) for each in samples],
                    digests=digests[start : number + 1],
                    held=self._held & set(range(start, number + 1)),
                )
                samples, size = [], 0

    def _answer(self, batch: Batch, future: Future[Answer]) -> BatchRanges | ModelAbsent:
        last = time.monotonic()
        while (found := self._fetched(batch, future)) is None:
            if self._cluster.workers():
                last = time.monotonic()
            elif time.monotonic() - last > GONE_SECONDS:
                raise CapabilityError(
                    f"{self._cluster.name} lost all workers, and none reconnected within {GONE_SECONDS:.0f} s",
                    hint="start workers, and run the same command again: it continues after the finished samples",
                )
        if isinstance(found, QdqError):
            raise found
        return found

    def _fetched(self, batch: Batch, future: Future[Answer]) -> Answer | None:
        """Wait for a task for a while; return its answer, or None if it has none yet."""
        # An answer stays in the memory of its worker until it is fetched. If the worker is lost, the task runs again.
        self._cluster.wait(future, _POLL_SECONDS)
        return _result(batch, future, self._cluster.name) if future.done() else None


def _result(batch: Batch, future: Future[Answer], scheduler: str) -> Answer | None:
    from distributed import KilledWorker

    try:
        answer: Answer = future.result(timeout=FETCH_SECONDS)
    except KilledWorker:
        raise CapabilityError(
            f"samples {batch.start} to {batch.stop - 1} ended every worker process that ran them",
            hint="read the logs of the workers: memory may have run out, or a library crashed",
        ) from None
    except Exception as error:
        # The class of this error has moved between releases of Dask.
        if future.cancelled():
            raise scheduler_gone(scheduler) from error
        if isinstance(error, TimeoutError) and future.status != "error":
            return None
        raise CapabilityError(
            f"samples {batch.start} to {batch.stop - 1} fail on the workers: {type(error).__name__}: {error}",
            hint="read the logs of the workers",
        ) from error
    return answer


async def _find(files: ModelFiles, dask_worker: Any) -> bool:
    """Return whether a worker has the model. A thread computes the digests, so that the worker can still answer."""
    return await asyncio.to_thread(find_copy, files, Path(dask_worker.local_directory)) is not None


async def _store(files: ModelFiles, location: str, offset: int, data: bytes, dask_worker: Any) -> None:
    await asyncio.to_thread(store_piece, files, Path(dask_worker.local_directory), location, offset, data)


async def _remove(files: ModelFiles, dask_worker: Any) -> None:
    def remove() -> None:
        close_model(files)
        remove_copy(files, Path(dask_worker.local_directory))

    await asyncio.to_thread(remove)
