"""Merge the ranges of shards to the ranges of one run over all samples, bit for bit."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from qdqtool.errors import UsageError
from qdqtool.quantization.ranges.types import UNSEEN, CalibrationRecord, Part, Ranges, TensorKey, TensorRange

Named = tuple[str, Ranges]
"""The origin of ranges, in words, and the ranges."""


def merge_ranges(shards: Sequence[tuple[str, Ranges]]) -> Ranges:
    """Merge shards that cover each sample once to the ranges of all samples.

    Args:
        shards: Where the ranges of each come from, in words, and the ranges; in any order.

    Raises:
        UsageError: They have different models, data, methods or tensors; one is not a shard or was interrupted; samples
            are missing or covered twice.
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


def _part(name: str, ranges: Ranges) -> Part:
    if ranges.part is None:
        raise UsageError(f"{name} is no shard: it has the ranges of all samples already")
    if not ranges.part.is_whole:
        raise UsageError(
            f"{name} is of an interrupted calibration: {ranges.part.done - ranges.part.start} of its "
            f"{ranges.part.stop - ranges.part.start} samples are done",
            hint="run the same calibration again; it goes on where it stopped",
        )
    return ranges.part


def _require_alike(first: Named, other: Named) -> None:
    one, two = first[1].record, other[1].record
    differences = (
        ("model", "", one.model_sha256 != two.model_sha256 or one.preparation != two.preparation),
        ("data", _data(one, two), _identity(one) != _identity(two)),
        ("seed", "", (one.random, one.seed) != (two.random, two.seed)),
        ("method", f", '{_method(one)}' and '{_method(two)}'", _method(one) != _method(two)),
        ("set of tensors", "", list(first[1].tensors) != list(other[1].tensors)),
    )
    for what, which, differs in differences:
        if differs:
            raise UsageError(
                f"{first[0]} and {other[0]} cannot be merged: each is of another {what}{which}",
                hint="every shard needs the same model, data and options, and only another number of the shard",
            )


def _identity(record: CalibrationRecord) -> tuple[str, int, int | None]:
    return record.data_sha256, record.samples, record.chunk


def _data(one: CalibrationRecord, two: CalibrationRecord) -> str:
    return f", {one.samples} and {two.samples} samples" if one.samples != two.samples else ""


def _method(record: CalibrationRecord) -> str:
    return " ".join([record.method, *(f"{name}={value}" for name, value in sorted(record.parameters.items()))])


def _require_cover(parts: Sequence[tuple[str, Part]], samples: int) -> None:
    ends = [("", Part(0, 0, 0)), *parts, ("", Part(samples, samples, samples))]
    for (left, before), (right, after) in pairwise(ends):
        if after.start < before.stop:
            raise UsageError(
                f"{left} and {right} both hold samples {after.start} to {min(before.stop, after.stop) - 1}",
                hint="name each shard once, and only those of one number of shards",
            )
        if after.start > before.stop:
            raise UsageError(
                f"no shard holds samples {before.stop} to {after.start - 1} of {samples}", hint="name every shard"
            )
