"""The results of calibration: the range of each tensor, and the record of the runs that gave it.

Ranges merge exactly: the same values give the same range in any order and grouping.
:mod:`qdqtool.quantization.ranges.file` stores ranges in files, :mod:`qdqtool.quantization.ranges.shard` merges the
ranges of shards.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any

from qdqtool.quantization.calibration_report import Trial
from qdqtool.quantization.ranges.histogram import Histogram
from qdqtool.samples.preprocessing import Preprocessing

CHUNK = 16
"""Number of samples whose digests and statistics are merged together; data is divided into shards only between chunks.
"""

TensorKey = tuple[tuple[str, ...], str]
"""Scope path (empty for the main graph) and name of a tensor."""


@dataclass(frozen=True, slots=True)
class TensorRange:
    """The range of the values of a tensor.

    Attributes:
        min: Smallest value; infinity if there are no values.
        max: Largest value; minus infinity if there are no values.
        amax: Largest magnitude; 0 if there are no values.
        count: Number of values.
        histogram: Histogram of the magnitudes; None if none was counted.
    """

    min: float = inf
    max: float = -inf
    amax: float = 0.0
    count: int = 0
    histogram: Histogram | None = None

    def merge(self, other: "TensorRange") -> "TensorRange":
        """Return the range of the values of both ranges, without a histogram if one of them has none."""
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
    """One change of the model's weights that was made, or only tried, before the model was calibrated.

    Attributes:
        step: Name of the step.
        parameters: The JSON values that repeat the change without data.
        trial: The effect of the step on the quantized model; None if that was not measured. It is not compared: another
            machine may measure a hundredth of a dB more or less for the same change.
    """

    step: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    trial: Trial | None = field(default=None, compare=False)

    @property
    def was_made(self) -> bool:
        """Whether the change was made and not only tried."""
        return self.trial is None or self.trial.kept


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationRecord:
    """The record of the runs that gave ranges.

    Attributes:
        method: Id of the calibration method for which the ranges were collected.
        parameters: Parameters of the method, as JSON values.
        samples: Number of samples, including the samples of other shards.
        random: Whether the samples were random.
        seed: Seed of random samples; None for real samples.
        data_sha256: Digest of every sample (:func:`qdqtool.samples.sample.data_digest`).
        chunk: Number of samples in a chunk of that digest; None for a digest of an earlier version, without chunks.
        model_sha256: Digest of the model that was run, including weights, however they are stored.
        preparation: The steps that made the model that was run from the given model, in order.
        preprocessing: How files became samples; None if the samples were arrays.
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
    preprocessing: Preprocessing | None = None


@dataclass(frozen=True, slots=True)
class RangesPart:
    """The part of the samples that ranges cover.

    Attributes:
        start: The first sample of the part.
        stop: One past the last sample.
        done: One past the last sample that was run; less than ``stop`` if calibration was interrupted.
    """

    start: int
    stop: int
    done: int

    @property
    def is_whole(self) -> bool:
        """Whether all samples of the part were run."""
        return self.done == self.stop


@dataclass(frozen=True, slots=True)
class Ranges:
    """Ranges of the tensors of one model.

    Attributes:
        record: The record of the runs.
        tensors: The range of each requested tensor, including tensors that were never computed.
        unreadable: Why tensors could not be read while the model ran; they have no range.
        part: The samples that were run; None for all samples.
        choosing: The range of each tensor on the selection samples only (:mod:`qdqtool.samples.split`); None if
            unknown. A file stores them until the calibration is complete.
    """

    record: CalibrationRecord
    tensors: Mapping[TensorKey, TensorRange] = field(default_factory=dict)
    unreadable: Mapping[TensorKey, str] = field(default_factory=dict)
    part: RangesPart | None = None
    choosing: Mapping[TensorKey, TensorRange] | None = None

    @property
    def samples(self) -> int:
        """The number of samples that the ranges cover."""
        return self.record.samples if self.part is None else self.part.done - self.part.start

    def unseen(self) -> tuple[TensorKey, ...]:
        """Return the tensors that had no value on the data."""
        return tuple(key for key, found in self.tensors.items() if not found.count)
