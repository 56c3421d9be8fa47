"""Read ranges from a file and check that they cover all samples and have what the method needs."""

from pathlib import Path

from qdqtool.errors import UsageError
from qdqtool.quantization.ranges import calibrators
from qdqtool.quantization.ranges.file import read_ranges
from qdqtool.quantization.ranges.types import Ranges


def read_stored(path: Path, method: str | None = None, *, force: bool = False) -> Ranges:
    """Read the ranges of a file that ``calibrate`` or ``merge`` wrote.

    Args:
        path: The file.
        method: Id of the calibration method that will use them; None for the one that they were made for.
        force: Whether ranges of a part of the samples are accepted.

    Raises:
        UsageError: It is not a ranges file, covers only a part of the samples, or lacks the histograms that the method
            reads.
    """
    ranges = read_ranges(path)
    method = method or ranges.record.method
    if not force:
        _require_whole(path, ranges)
    lacking = [name for (_, name), found in ranges.tensors.items() if found.count and found.histogram is None]
    if lacking and calibrators.get(method).needs_histogram:
        raise UsageError(
            f"ranges {path} have no histograms, which method '{method}' needs; they were found for "
            f"'{ranges.record.method}'",
            hint=f"quantize with `--calibration-method {ranges.record.method}`, or calibrate again with "
            f"`--calibration-method {method}`",
        )
    return ranges


def _require_whole(path: Path, ranges: Ranges) -> None:
    part, samples = ranges.part, ranges.record.samples
    if part is None:
        return
    held = f"{part.done - part.start} of {samples} samples"
    if not part.is_whole:
        raise UsageError(
            f"ranges {path} are of an interrupted calibration, with {held}",
            hint="run the same calibration again, which goes on where it stopped; quantizing with `--force` takes them "
            "all the same",
        )
    raise UsageError(
        f"ranges {path} are those of a shard, with {held}",
        hint="join all shards: `qdqtool merge SHARD... -o RANGES`; quantizing with `--force` takes them all the same",
    )
