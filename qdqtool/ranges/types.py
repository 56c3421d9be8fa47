"""What calibration finds out: the range of each tensor, and what was run to find it.

A range is exactly mergeable: whatever the order and grouping of the values, the same values give the same range.
:mod:`qdqtool.ranges.file` keeps ranges in files, :mod:`qdqtool.ranges.merge` joins those of shards.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any

from qdqtool.ranges.histogram import Histogram

CHUNK = 16
"""Samples whose digests and statistics belong together: data is cut into shards between chunks only."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialOutput:
    """What one output keeps of the float model's when it is quantized with a change and without.

    Attributes:
        name: Name of the output.
        without_db: Its SQNR without the change, in dB; None where it is no number.
        with_db: Its SQNR with the change.
    """

    name: str
    without_db: float | None
    with_db: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A change of weights, measured on the quantized model.

    Attributes:
        samples: On how many samples.
        kept: Whether the change was made.
        outputs: What the float outputs kept.
        problem: Why nothing was measured; empty where it was.
    """

    samples: int
    kept: bool
    outputs: tuple[TrialOutput, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True)
class PreparationStep:
    """One change of the model's weights that was made, or tried, before it was run.

    Attributes:
        step: Name of the step.
        parameters: What it needs to be made again without data: JSON values.
        trial: What it did to the quantized model; None where that was not measured. Steps that made the same change are
            equal: on another machine a hundredth of a dB may be measured differently.
    """

    step: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    trial: Trial | None = field(default=None, compare=False)

    @property
    def was_made(self) -> bool:
        """Whether it was made, and not only tried."""
        return self.trial is None or self.trial.kept


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationRecord:
    """What was run to get ranges.

    Attributes:
        method: Id of the calibrator that the ranges were made for.
        parameters: Of the method: JSON values.
        samples: How many samples there are, those of other shards included.
        random: Whether they were random.
        seed: Of random samples; None for real ones.
        data_sha256: Digest of every sample (:class:`qdqtool.data.DataDigest`).
        chunk: Samples of a chunk of that digest; None where it was made in another way, by an earlier version.
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
    parameters: Mapping[str, Any] = field(default_factory=dict)
    chunk: int | None = CHUNK


@dataclass(frozen=True, slots=True)
class Part:
    """Which samples ranges are of, where they are not of all.

    Attributes:
        start: The first sample that belongs to it.
        stop: One past the last.
        done: One past the last that was run; less than ``stop`` where calibration was interrupted.
    """

    start: int
    stop: int
    done: int

    @property
    def is_whole(self) -> bool:
        """Whether all of it was run."""
        return self.done == self.stop


@dataclass(frozen=True, slots=True)
class Ranges:
    """Ranges of the tensors of one model.

    Attributes:
        record: How they came about.
        tensors: The range of each tensor that was asked for, those that were never computed included.
        unreadable: Why tensors could not be read while the model ran; they have no range.
        part: Which samples were run; None for all of them.
    """

    record: CalibrationRecord
    tensors: Mapping[TensorKey, TensorRange] = field(default_factory=dict)
    unreadable: Mapping[TensorKey, str] = field(default_factory=dict)
    part: Part | None = None

    @property
    def samples(self) -> int:
        """How many samples they are of."""
        return self.record.samples if self.part is None else self.part.done - self.part.start

    def unseen(self) -> tuple[TensorKey, ...]:
        """The tensors that took no value on the data."""
        return tuple(key for key, found in self.tensors.items() if not found.count)
