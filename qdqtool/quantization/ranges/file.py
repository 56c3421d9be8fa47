"""Read and write the JSON file of ranges (``docs/reference/files.md``); reading is strict.

Equal ranges give equal bytes, and reading them gives equal ranges. Files of schema version 1 are still read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isfinite, ldexp
from pathlib import Path
from typing import Any

import msgspec

from qdqtool.errors import UsageError
from qdqtool.quantization.ranges import calibrators
from qdqtool.quantization.ranges.file_content import (
    RangesFile,
    StoredData,
    StoredHistogram,
    StoredMethod,
    StoredModel,
    StoredPart,
    StoredRange,
    StoredStep,
)
from qdqtool.quantization.ranges.histogram import Histogram, decode_counts, encode_counts, exponent_for
from qdqtool.quantization.ranges.types import (
    UNSEEN,
    CalibrationRecord,
    PreparationStep,
    Ranges,
    RangesPart,
    TensorKey,
    TensorRange,
)

SCHEMA_VERSION = 2
READ_VERSIONS = (1, SCHEMA_VERSION)
MAX_RANGES_BYTES = 1 << 28


def encode_ranges(ranges: Ranges) -> bytes:
    """Encode ranges as indented JSON.

    The file of a complete calibration has no ranges of selection samples: they serve only to resume a calibration.
    """
    record, part = ranges.record, ranges.part
    choosing = None if part is None or part.is_whole else ranges.choosing
    document = RangesFile(
        schema_version=SCHEMA_VERSION,
        model=StoredModel(
            sha256=record.model_sha256,
            preparation=[
                StoredStep(step=made.step, parameters=dict(made.parameters), trial=made.trial or msgspec.UNSET)
                for made in record.preparation
            ],
        ),
        data=StoredData(
            sha256=record.data_sha256,
            samples=record.samples,
            random=record.random,
            seed=record.seed,
            chunk=record.chunk,
            preprocessing=record.preprocessing,
        ),
        method=StoredMethod(name=record.method, parameters=dict(record.parameters)),
        part=None if part is None else StoredPart(start=part.start, stop=part.stop, done=part.done),
        tensors=[_entry(key, found, ranges.unreadable.get(key)) for key, found in ranges.tensors.items()],
        choosing=None if choosing is None else [_entry(key, found, None) for key, found in choosing.items()],
    )
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def read_ranges(path: Path) -> Ranges:
    """Read a ranges file strictly.

    Raises:
        UsageError: The file is missing, not a ranges file, of another schema version, or contradicts itself.
    """
    document = _decode(path)
    record = CalibrationRecord(
        method=document.method.name,
        parameters=document.method.parameters,
        samples=document.data.samples,
        random=document.data.random,
        seed=document.data.seed,
        data_sha256=document.data.sha256,
        chunk=document.data.chunk,
        preprocessing=document.data.preprocessing,
        model_sha256=document.model.sha256,
        preparation=_preparation(document.model),
    )
    entries, part = _by_key(document.tensors, path), _part(document, path)
    tensors = {key: _range(entry, path) for key, entry in entries.items()}
    unreadable = {key: entry.unreadable for key, entry in entries.items() if entry.unreadable is not None}
    choosing = _choosing(document.choosing, tensors, path)
    if choosing is not None and (part is None or part.is_whole):
        raise UsageError(f"ranges {path} have ranges of selection samples, although the calibration is complete")
    return Ranges(record, tensors, unreadable, part, choosing)


def _entry(key: TensorKey, found: TensorRange, unreadable: str | None) -> StoredRange:
    scope, name = key
    low, high = (found.min, found.max) if found.count else (None, None)
    histogram, counted = None, found.histogram
    if counted is not None:
        counts = encode_counts(counted.counts)
        histogram = StoredHistogram(exponent=counted.exponent, zeros=counted.zeros, counts=counts)
    return StoredRange(
        tensor=name,
        scope=list(scope),
        min=low,
        max=high,
        amax=found.amax,
        count=found.count,
        histogram=histogram,
        unreadable=unreadable,
    )


def _decode(path: Path) -> RangesFile:
    try:
        if path.stat().st_size > MAX_RANGES_BYTES:
            raise UsageError(f"ranges {path} is larger than {MAX_RANGES_BYTES >> 20} MiB")
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"ranges {path} cannot be read: {error.strerror or error}") from None
    hint = (
        "`qdqtool calibrate MODEL --calib-data DATA -o RANGES` writes a ranges file; `qdqtool explain other-tools` "
        "lists the files of other tools that can be read"
    )
    try:
        version = msgspec.json.decode(data, type=dict[str, Any]).get("schema_version")
        if version not in READ_VERSIONS:
            known = " and ".join(map(str, READ_VERSIONS))
            raise UsageError(f"ranges {path} has schema_version {version!r}; this qdqtool reads {known}", hint=hint)
        return msgspec.json.decode(data, type=RangesFile)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        reason = str(error).replace("`", "'")
        raise UsageError(f"ranges {path} is no ranges file: {reason}", hint=hint) from None


def _preparation(model: StoredModel) -> tuple[PreparationStep, ...]:
    if model.batchnorm_folded is True:
        return (PreparationStep("batchnorm"),)
    return tuple(
        PreparationStep(made.step, made.parameters, None if made.trial is msgspec.UNSET else made.trial)
        for made in model.preparation
    )


def _part(document: RangesFile, path: Path) -> RangesPart | None:
    found = document.part
    if found is None:
        return None
    if not 0 <= found.start <= found.done <= found.stop <= document.data.samples:
        raise UsageError(
            f"ranges {path}: of {document.data.samples} samples, the part has start {found.start}, "
            f"done {found.done} and stop {found.stop}; they must not decrease"
        )
    return RangesPart(found.start, found.stop, found.done)


def _choosing(
    entries: list[StoredRange] | None, tensors: Mapping[TensorKey, TensorRange], path: Path
) -> Mapping[TensorKey, TensorRange] | None:
    if entries is None:
        return None
    found = {key: _range(entry, path) for key, entry in _by_key(entries, path).items()}
    if list(found) != list(tensors):
        raise UsageError(f"ranges {path}: the selection samples and all samples have ranges of different tensors")
    for key, part in found.items():
        whole = tensors[key]
        if part.count > whole.count or part.min < whole.min or part.max > whole.max:
            raise UsageError(
                f"ranges {path}: tensor '{key[1]}' has more values or a wider range in the selection samples "
                "than in all samples"
            )
    return found


def _by_key(entries: list[StoredRange], path: Path) -> Mapping[TensorKey, StoredRange]:
    found: dict[TensorKey, StoredRange] = {}
    for entry in entries:
        key = (tuple(entry.scope), entry.tensor)
        if key in found:
            raise UsageError(f"ranges {path} names tensor '{entry.tensor}' twice")
        found[key] = entry
    return found


def _range(entry: StoredRange, path: Path) -> TensorRange:
    if entry.count == 0 and entry.min is None and entry.max is None and entry.amax == 0 and entry.histogram is None:
        return UNSEEN
    low, high = entry.min, entry.max
    whole = entry.count > 0 and low is not None and high is not None and low <= high and entry.unreadable is None
    if not whole or not isfinite(entry.amax) or entry.amax != max(abs(low or 0.0), abs(high or 0.0)):
        raise UsageError(
            f"ranges {path}: tensor '{entry.tensor}' has min {low}, max {high}, amax {entry.amax}, "
            f"count {entry.count}, which contradict each other"
        )
    assert low is not None
    assert high is not None
    return TensorRange(low, high, entry.amax, entry.count, _checked_histogram(entry, path))


def _checked_histogram(entry: StoredRange, path: Path) -> Histogram | None:
    stored = entry.histogram
    if stored is None:
        return None
    try:
        counts = decode_counts(stored.counts)
    except ValueError as error:
        raise UsageError(f"ranges {path}: tensor '{entry.tensor}': counts: {error}") from None
    found = Histogram(stored.exponent, counts, stored.zeros)
    for problem in _contradictions(found, entry):
        raise UsageError(f"ranges {path}: tensor '{entry.tensor}': the histogram {problem}")
    return found


def _contradictions(found: Histogram, entry: StoredRange) -> Iterator[str]:
    total = int(found.counts.sum()) + found.zeros
    if total != entry.count or found.zeros < 0:
        yield f"has {total} values, {found.zeros} of them zeros; the tensor has {entry.count}"
    elif found.exponent != exponent_for(entry.amax):
        yield f"has exponent {found.exponent}; for largest magnitude {entry.amax} it must be {exponent_for(entry.amax)}"
    elif found.exponent is not None and not found.counts[int(ldexp(entry.amax, -found.exponent))]:
        yield f"has no values in the bin of the largest magnitude, {entry.amax}"


def read_stored(path: Path, method: str | None = None, *, force: bool = False) -> Ranges:
    """Read the ranges of a file that ``calibrate`` or ``merge`` wrote.

    Args:
        path: The file.
        method: Id of the calibration method that will use the ranges; None for the method in the file.
        force: Whether ranges of only some of the samples are accepted.

    Raises:
        UsageError: The file is no ranges file, covers only some of the samples, or lacks histograms that the method
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
            f"ranges {path} come from an interrupted calibration, with {held}",
            hint="run the same calibration again: it continues where it stopped; quantizing with `--force` uses them "
            "anyway",
        )
    raise UsageError(
        f"ranges {path} come from a shard, with {held}",
        hint="join all shards: `qdqtool merge SHARD... -o RANGES`; quantizing with `--force` uses them anyway",
    )
