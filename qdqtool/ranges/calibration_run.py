"""The samples of a calibration, all or those of a shard, folded into ranges that are kept while it goes on."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from qdqtool.data import Feeds
from qdqtool.data.feeds import Progress
from qdqtool.ranges.checkpoint import RangesCheckpoint
from qdqtool.ranges.collector import RangeCollector
from qdqtool.ranges.shard import Shard
from qdqtool.ranges.types import CalibrationRecord, Part, Ranges


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationScope:
    """How much of a calibration is run, and where it is kept meanwhile.

    Attributes:
        shard: Which shard of the samples; None for all of them.
        keep: A ranges file that holds what is done, from time to time and at Ctrl-C, and from which an interrupted run
            goes on; None for none.
    """

    shard: Shard | None = None
    keep: Path | None = None


@dataclass(frozen=True, slots=True)
class Samples:
    """Calibration data.

    Attributes:
        feeds: The samples.
        digests: The digest of each.
    """

    feeds: Feeds
    digests: Sequence[bytes]


@dataclass(frozen=True, slots=True)
class Folded:
    """What came of it.

    Attributes:
        ranges: Of all samples, or of the shard.
        resumed: How many samples an interrupted run had done before.
    """

    ranges: Ranges
    resumed: int


def fold_samples(
    collector: RangeCollector,
    record: CalibrationRecord,
    samples: Samples,
    scope: CalibrationScope,
    progress: Progress | None,
) -> Folded:
    """Run the samples that are asked for and are not done yet.

    Args:
        collector: Takes them; nothing was folded yet.
        record: Of the calibration.
        samples: All samples.
        scope: Which of them, and where what is done is kept.
        progress: Told of every sample.

    Raises:
        UsageError: As :meth:`RangeCollector.chunks`; or the file holds what an interrupted run of another calibration
            left.
        OutputError: The file cannot be written.
        Interrupted: Ctrl-C, when there is a file.
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
        return Ranges(record, collector.ranges, collector.unreadable, part)

    try:
        for done in collector.chunks(samples.feeds, samples.digests, part, progress):
            part = replace(part, done=done)
            if checkpoint is not None and not part.is_whole:
                checkpoint.offer(so_far)
    except KeyboardInterrupt:
        if checkpoint is None:
            raise
        raise checkpoint.interrupted(so_far()) from None
    return Folded(so_far() if scope.shard else replace(so_far(), part=None), resumed)
