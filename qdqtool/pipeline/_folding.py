"""The samples of a calibration, all or those of a shard, folded into ranges that are kept while it goes on."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from qdqtool.pipeline._check_job import Progress
from qdqtool.pipeline._ranges_keeper import RangesKeeper
from qdqtool.pipeline._statistics import RangeFold
from qdqtool.pipeline.data import Feeds
from qdqtool.pipeline.shard import Shard
from qdqtool.ranges import CalibrationRecord, Part, Ranges


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
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
    fold: RangeFold, record: CalibrationRecord, samples: Samples, extent: Extent, progress: Progress | None
) -> Folded:
    """Run the samples that are asked for and are not done yet.

    Args:
        fold: Takes them; nothing was folded yet.
        record: Of the calibration.
        samples: All samples.
        extent: Which of them, and where what is done is kept.
        progress: Told of every sample.

    Raises:
        UsageError: As :meth:`RangeFold.chunks`; or the file holds what an interrupted run of another calibration left.
        OutputError: The file cannot be written.
        Interrupted: Ctrl-C, when there is a file.
    """
    count = len(samples.feeds)
    part = extent.shard.part(count) if extent.shard else Part(0, count, 0)
    keeper = RangesKeeper(extent.keep) if extent.keep else None
    earlier = keeper.earlier(Ranges(record, fold.ranges, part=part)) if keeper else None
    if earlier is not None:
        assert earlier.part is not None
        fold.resume(earlier)
        part = earlier.part
    resumed = part.done - part.start

    def so_far() -> Ranges:
        return Ranges(record, fold.ranges, fold.unreadable, part)

    try:
        for done in fold.chunks(samples.feeds, samples.digests, part, progress):
            part = replace(part, done=done)
            if keeper is not None and not part.is_whole:
                keeper.offer(so_far)
    except KeyboardInterrupt:
        if keeper is None:
            raise
        raise keeper.interrupted(so_far()) from None
    return Folded(so_far() if extent.shard else replace(so_far(), part=None), resumed)
