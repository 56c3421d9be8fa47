"""What calibration finds out: the range of each tensor, and the JSON file that keeps it.

A range is exactly mergeable: whatever the order and grouping of the values, the same values give the same range.
The file also says what was run on what, so that ranges are not applied to another model by mistake.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import inf, isfinite
from pathlib import Path
from typing import Any

import msgspec

from qdqtool.errors import UsageError
from qdqtool.histogram import Histogram

SCHEMA_VERSION = 1
MAX_RANGES_BYTES = 1 << 28

TensorKey = tuple[tuple[str, ...], str]
"""Scope path (empty for the main graph) and name of a tensor."""


@dataclass(frozen=True, slots=True)
class TensorRange:
    """What values a tensor took.

    Attributes:
        min: Smallest value; infinity where none was seen.
        max: Largest value; minus infinity where none was seen.
        amax: Largest magnitude; 0 where none was seen.
        count: Number of values seen.
        histogram: Of their magnitudes; None where none was made.
    """

    min: float = inf
    max: float = -inf
    amax: float = 0.0
    count: int = 0
    histogram: Histogram | None = None

    def merge(self, other: "TensorRange") -> "TensorRange":
        """The range of the values of both; without a histogram where one of them has none."""
        if not self.count or not other.count:
            return self if self.count else other
        one, two = self.histogram, other.histogram
        return TensorRange(
            min(self.min, other.min),
            max(self.max, other.max),
            max(self.amax, other.amax),
            self.count + other.count,
            None if one is None or two is None else one.merge(two),
        )


UNSEEN = TensorRange()


@dataclass(frozen=True, slots=True)
class PreparationStep:
    """One change of the model's weights that was made before it was run.

    Attributes:
        step: Name of the step.
        parameters: What it needs to be made again without data: JSON values.
    """

    step: str
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationRecord:
    """What was run to get ranges.

    Attributes:
        method: Id of the calibrator that the ranges were made for.
        samples: How many samples were run.
        random: Whether they were random.
        seed: Of random samples; None for real ones.
        data_sha256: Digest of every sample that was fed.
        model_sha256: Digest of the model that was run, weights included, however they are stored.
        preparation: The steps that made that model of the one that was given, in order.
    """

    method: str
    samples: int
    random: bool
    seed: int | None
    data_sha256: str
    model_sha256: str
    preparation: tuple[PreparationStep, ...] = ()


@dataclass(frozen=True, slots=True)
class Ranges:
    """Ranges of the tensors of one model.

    Attributes:
        record: How they came about.
        tensors: The range of each tensor that was asked for, those that were never computed included.
    """

    record: CalibrationRecord
    tensors: Mapping[TensorKey, TensorRange] = field(default_factory=dict)

    def unseen(self) -> tuple[TensorKey, ...]:
        """The tensors that took no value on the data."""
        return tuple(key for key, found in self.tensors.items() if not found.count)


class _Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    tensor: str
    scope: list[str]
    min: float | None
    max: float | None
    amax: float
    count: int


class _Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    step: str
    parameters: dict[str, Any] = {}


class _Model(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    sha256: str
    preparation: list[_Step] = []
    batchnorm_folded: bool | msgspec.UnsetType = msgspec.UNSET
    """In files of version 1, which knew of no other step."""


class _Data(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    sha256: str
    samples: int
    random: bool
    seed: int | None


class _Method(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    name: str
    parameters: dict[str, Any]


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    schema_version: int
    model: _Model
    data: _Data
    method: _Method
    tensors: list[_Entry]


def encode_ranges(ranges: Ranges) -> bytes:
    """The ranges as indented JSON; the same ranges give the same bytes, and reading them gives the same ranges."""
    record = ranges.record
    document = _File(
        schema_version=SCHEMA_VERSION,
        model=_Model(
            sha256=record.model_sha256,
            preparation=[_Step(step=made.step, parameters=dict(made.parameters)) for made in record.preparation],
        ),
        data=_Data(sha256=record.data_sha256, samples=record.samples, random=record.random, seed=record.seed),
        method=_Method(name=record.method, parameters={}),
        tensors=[_entry(key, found) for key, found in ranges.tensors.items()],
    )
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def read_ranges(path: Path) -> Ranges:
    """Read a ranges file strictly.

    Raises:
        UsageError: It is missing, no ranges file, of another schema version, or contradicts itself.
    """
    document = _decode(path)
    record = CalibrationRecord(
        method=document.method.name,
        samples=document.data.samples,
        random=document.data.random,
        seed=document.data.seed,
        data_sha256=document.data.sha256,
        model_sha256=document.model.sha256,
        preparation=_preparation(document.model),
    )
    return Ranges(record, dict(_checked(document, path)))


def _preparation(model: _Model) -> tuple[PreparationStep, ...]:
    if model.batchnorm_folded is True:
        return (PreparationStep("batchnorm"),)
    return tuple(PreparationStep(made.step, made.parameters) for made in model.preparation)


def _entry(key: TensorKey, found: TensorRange) -> _Entry:
    scope, name = key
    low, high = (found.min, found.max) if found.count else (None, None)
    return _Entry(tensor=name, scope=list(scope), min=low, max=high, amax=found.amax, count=found.count)


def _decode(path: Path) -> _File:
    try:
        if path.stat().st_size > MAX_RANGES_BYTES:
            raise UsageError(f"ranges {path} is larger than {MAX_RANGES_BYTES >> 20} MiB")
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"ranges {path} cannot be read: {error.strerror or error}") from None
    hint = "`qdqtool calibrate` writes ranges files"
    try:
        version = msgspec.json.decode(data, type=dict[str, Any]).get("schema_version")
        if version != SCHEMA_VERSION:
            raise UsageError(
                f"ranges {path} has schema_version {version!r}; this qdqtool reads {SCHEMA_VERSION}", hint=hint
            )
        return msgspec.json.decode(data, type=_File)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        reason = str(error).replace("`", "'")
        raise UsageError(f"ranges {path} is no ranges file: {reason}", hint=hint) from None


def _checked(document: _File, path: Path) -> Iterator[tuple[TensorKey, TensorRange]]:
    seen: set[TensorKey] = set()
    for entry in document.tensors:
        key = (tuple(entry.scope), entry.tensor)
        if key in seen:
            raise UsageError(f"ranges {path} names tensor '{entry.tensor}' twice")
        seen.add(key)
        yield key, _range(entry, path)


def _range(entry: _Entry, path: Path) -> TensorRange:
    if entry.count == 0 and entry.min is None and entry.max is None and entry.amax == 0:
        return UNSEEN
    low, high = entry.min, entry.max
    whole = entry.count > 0 and low is not None and high is not None and low <= high
    if not whole or not isfinite(entry.amax) or entry.amax != max(abs(low or 0.0), abs(high or 0.0)):
        raise UsageError(
            f"ranges {path}: tensor '{entry.tensor}' has min {low}, max {high}, amax {entry.amax}, "
            f"count {entry.count}, which contradict each other"
        )
    assert low is not None
    assert high is not None
    return TensorRange(low, high, entry.amax, entry.count)
