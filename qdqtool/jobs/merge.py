"""The merge job: read ranges files of shards, and write the ranges file of all samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from qdqtool.models.graph.io.output import check_output, write_output
from qdqtool.quantization.ranges.file import encode_ranges, read_ranges
from qdqtool.quantization.ranges.shard import merge_ranges
from qdqtool.results import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeReport(Report):
    """The result of ``merge``.

    Attributes:
        output: The ranges file that was written.
        shards: The files that were read.
        method: The calibration method for which the ranges were collected.
        samples: Number of samples on which the ranges were collected.
        tensors: Number of tensors with a range.
        unseen: Number of tensors without a range.
    """

    output: str
    shards: tuple[str, ...]
    method: str
    samples: int
    tensors: int
    unseen: int


def merge_to_file(shards: Sequence[str | Path], output: str | Path) -> MergeReport:
    """Merge the ranges of shards (:func:`qdqtool.quantization.ranges.shard.merge_ranges`) and write them.

    Args:
        shards: Files that ``calibrate`` wrote, in any order.
        output: The ranges file to write; it must not be one of the shards.

    Raises:
        UsageError: A file is not a ranges file, or the shards do not form one complete run.
        OutputError: The file cannot be written.
    """
    paths, output = [Path(shard) for shard in shards], Path(output)
    check_output(output, paths)
    merged = merge_ranges([(str(path), read_ranges(path)) for path in paths])
    write_output(output, encode_ranges(merged))
    unseen = len(merged.unseen())
    return MergeReport(
        output=str(output),
        shards=tuple(map(str, paths)),
        method=merged.record.method,
        samples=merged.record.samples,
        tensors=len(merged.tensors) - unseen,
        unseen=unseen,
    )
