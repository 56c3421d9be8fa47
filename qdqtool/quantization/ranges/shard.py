"""Divide the samples of a calibration into shards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from qdqtool.errors import ArgumentError, UsageError
from qdqtool.quantization.ranges.types import (
    CHUNK,
    UNSEEN,
    CalibrationRecord,
    Ranges,
    RangesPart,
    TensorKey,
    TensorRange,
)

Named = tuple[str, Ranges]
"""The origin of ranges, as text, and the ranges."""


def merge_ranges(shards: Sequence[tuple[str, Ranges]]) -> Ranges:
    """Merge shards that together cover each sample once into the ranges of all samples.

    Args:
        shards: The origin (as text) and the ranges of each shard, in any order.

    Raises:
        UsageError: The shards have different models, data, methods or tensors; one is not a shard or was interrupted;
            samples are missing or covered twice.
    """
    ordered = sorted(((name, ranges, _part(name, ranges)) for name, ranges in shards), key=lambda shard: shard[2].start)
    if not ordered:
        raise UsageError("there is nothing to merge")
    first, base, _ = ordered[0]
    for name, ranges, _ in ordered[1:]:
        _require_alike((first, base), (name, ranges))
    _require_cover([(name, part) for name, _, part in ordered], base.record.samples)
    tensors: dict[TensorKey, TensorRange] = dict(base.tensors)
    unreadable: dict[TensorKey, str] = {}
    for number, (_, ranges, _) in enumerate(ordered):
        unreadable.update(ranges.unreadable)
        if number:
            tensors = {key: found.merge(ranges.tensors[key]) for key, found in tensors.items()}
    tensors.update(dict.fromkeys(unreadable, UNSEEN))
    return Ranges(base.record, tensors, {key: unreadable[key] for key in tensors if key in unreadable})


def _part(name: str, ranges: Ranges) -> RangesPart:
    if ranges.part is None:
        raise UsageError(f"{name} is no shard: it has the ranges of all samples already")
    if not ranges.part.is_whole:
        raise UsageError(
            f"{name} comes from an interrupted calibration: {ranges.part.done - ranges.part.start} of its "
            f"{ranges.part.stop - ranges.part.start} samples are done",
            hint="run the same calibration again; it continues where it stopped",
        )
    return ranges.part


def _require_alike(first: Named, other: Named) -> None:
    one, two = first[1].record, other[1].record
    data = [(each.data_sha256, each.samples, each.chunk) for each in (one, two)]
    counts = f", {one.samples} and {two.samples} samples" if one.samples != two.samples else ""
    differences = (
        ("model", "", one.model_sha256 != two.model_sha256 or one.preparation != two.preparation),
        ("data", counts, data[0] != data[1]),
        ("seed", "", (one.random, one.seed) != (two.random, two.seed)),
        ("method", f", '{_method(one)}' and '{_method(two)}'", _method(one) != _method(two)),
        ("set of tensors", "", list(first[1].tensors) != list(other[1].tensors)),
    )
    for what, which, differs in differences:
        if differs:
            raise UsageError(
                f"{first[0]} and {other[0]} cannot be merged: they differ in the {what}{which}",
                hint="calibrate each shard with the same model, data and options; only the number of the shard differs",
            )


def _method(record: CalibrationRecord) -> str:
    return " ".join([record.method, *(f"{name}={value}" for name, value in sorted(record.parameters.items()))])


def _require_cover(parts: Sequence[tuple[str, RangesPart]], samples: int) -> None:
    ends = [("", RangesPart(0, 0, 0)), *parts, ("", RangesPart(samples, samples, samples))]
    for (left, before), (right, after) in pairwise(ends):
        if after.start < before.stop:
            raise UsageError(
                f"{left} and {right} both hold samples {after.start} to {min(before.stop, after.stop) - 1}",
                hint="name each shard once, and only shards of one division, such as 1/2 and 2/2",
            )
        if after.start > before.stop:
            raise UsageError(
                f"no shard holds samples {before.stop} to {after.start - 1} of {samples}", hint="name every shard"
            )


@dataclass(frozen=True, slots=True)
class Shard:
    """One of several runs that divide the samples of a calibration among them.

    Attributes:
        number: Number of the shard, from 1.
        of: Number of shards.

    Raises:
        ArgumentError: The number is not between 1 and the number of shards.
    """

    number: int
    of: int

    def __post_init__(self) -> None:
        if self.of < 1:
            raise ArgumentError(f"shard {self.number}/{self.of} does not exist: there is at least one shard")
        if not 1 <= self.number <= self.of:
            raise ArgumentError(f"shard {self.number}/{self.of} does not exist; shards count from 1 to {self.of}")

    def part(self, samples: int) -> RangesPart:
        """Return the samples of the shard: whole chunks; the numbers of chunks of two shards differ by at most one.

        Raises:
            UsageError: There are more shards than chunks.
        """
        chunks = -(-samples // CHUNK)
        if self.of > chunks:
            raise UsageError(
                f"{samples} samples cannot be cut into {self.of} shards: a shard has at least one chunk of {CHUNK}",
                hint=f"at most {chunks} are possible: `--shard 1/{chunks}`" if chunks > 1 else "leave the option out",
            )
        start = chunks * (self.number - 1) // self.of * CHUNK
        return RangesPart(start, min(chunks * self.number // self.of * CHUNK, samples), start)


def parse_shard(text: str, option: str) -> Shard:
    """Return the shard from the text ``I/N``.

    Raises:
        UsageError: The text has another form, or there is no such shard.
    """
    number, _, of = text.partition("/")
    digits = text.isascii() and number.isdecimal() and of.isdecimal() and len(text) < 16
    if not digits:
        raise UsageError(f"{option} is '{text}'; it must be I/N, such as 2/4 for the second of four")
    return Shard(int(number), int(of))
