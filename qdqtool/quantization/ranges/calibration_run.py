"""Run the samples of a calibration, or of one shard, collect ranges, and keep partial results in a file meanwhile."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from qdqtool.errors import CapabilityError
from qdqtool.quantization.ranges.checkpoint import RangesCheckpoint
from qdqtool.quantization.ranges.shard import Shard
from qdqtool.quantization.ranges.types import CalibrationRecord, Part, Ranges, TensorKey, TensorRange
from qdqtool.samples import Feeds
from qdqtool.samples.feeds import Progress


class Collector(Protocol):
    """Collects ranges, as :class:`qdqtool.quantization.ranges.collector.RangeCollector` does in this process."""

    @property
    def ranges(self) -> Mapping[TensorKey, TensorRange]:
        """The ranges of the samples that are done."""
        ...

    @property
    def choosing(self) -> Mapping[TensorKey, TensorRange] | None:
        """The same without samples that are held back."""
        ...

    @property
    def unreadable(self) -> Mapping[TensorKey, str]:
        """Why a tensor could not be read everywhere."""
        ...

    def resume(self, ranges: Ranges) -> None:
        """Continue from ranges of the same tensors."""
        ...

    def chunks(
        self, feeds: Feeds, digests: Sequence[bytes], part: Part, progress: Progress | None = None
    ) -> Iterator[int]:
        """Run the samples of a part that are not done, and yield one past the last that is done."""
        ...


Elsewhere = Callable[[CalibrationRecord, Sequence[TensorKey], Collection[int]], Collector]
"""Makes a collector that runs samples in other processes, of the record, the tensors and the samples held back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationScope:
    """The samples of a calibration that are run, and the file of partial results.

    Attributes:
        shard: The shard of the samples; None for all samples.
        keep: A ranges file that is written from time to time and at Ctrl-C, and from which an interrupted run
            continues; None for no file.
        hold_back: Whether some of the samples choose nothing, so that accuracy can be measured on them.
        elsewhere: Runs the samples in other processes; None for this one.
    """

    shard: Shard | None = None
    keep: Path | None = None
    hold_back: bool = True
    elsewhere: Elsewhere | None = None


@dataclass(frozen=True, slots=True)
class Samples:
    """Calibration data.

    Attributes:
        feeds: The samples.
        digests: The digest of each sample.
    """

    feeds: Feeds
    digests: Sequence[bytes]


@dataclass(frozen=True, slots=True)
class CalibrationResult:
    """The result of a calibration run.

    Attributes:
        ranges: Ranges of all samples, or of the shard.
        resumed: Number of samples that an interrupted run had done before.
    """

    ranges: Ranges
    resumed: int


def fold_samples(
    collector: Collector,
    record: CalibrationRecord,
    samples: Samples,
    scope: CalibrationScope,
    progress: Progress | None,
) -> CalibrationResult:
    """Run the samples of ``scope`` that are not done yet.

    Args:
        collector: Collects the ranges; it is empty.
        record: The record of the calibration.
        samples: All samples.
        scope: Which of them are run, and where partial results are kept.
        progress: Called for every sample.

    Raises:
        UsageError: As :meth:`Collector.chunks`; or the file holds what an interrupted run of another calibration
            left.
        OutputError: The file cannot be written.
        Interrupted: Ctrl-C, when there is a file.
        CapabilityError: No machine is left that runs samples. The file holds what is done.
    """
    count = len(samples.feeds)
    part = scope.shard.part(count) if scope.shard else Part(0, count, 0)
    checkpoint = RangesCheckpoint(scope.keep) if scope.keep else None
    earlier = checkpoint.earlier(Ranges(record, collector.ranges, part=part)) if checkpoint else None
    if earlier is not None:
        assert earlier.part is not None
        collector.resume(earlier)
        part = earlier.part
    resumed = part.done - part.start

    def so_far() -> Ranges:
        return Ranges(record, collector.ranges, collector.unreadable, part, collector.choosing)

    try:
        for done in collector.chunks(samples.feeds, samples.digests, part, progress):
            part = replace(part, done=done)
            if checkpoint is not None and not part.is_whole:
                checkpoint.offer(so_far)
    except KeyboardInterrupt:
        if checkpoint is None:
            raise
        raise checkpoint.interrupted(so_far()) from None
    except CapabilityError:
        # The machines that ran the samples are gone.
        if checkpoint is not None and part.done > part.start:
            checkpoint.keep(so_far())
        raise
    return CalibrationResult(so_far() if scope.shard else replace(so_far(), part=None), resumed)
