"""The decoded content of a ranges file (``docs/reference/files.md``): ``file.py`` turns it into ranges."""

from typing import Any

import msgspec

from qdqtool.quantization.calibration_report import Trial
from qdqtool.samples.preprocessing import Preprocessing


class StoredHistogram(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A histogram of magnitudes.

    Attributes:
        exponent: A bin is ``2**exponent`` wide; None where every value is 0.
        zeros: Number of zeros, which no bin has.
        counts: The counts of the bins: ``3 0*40 17`` for 3, forty zeros, 17; zeros at the end are left out.
    """

    exponent: int | None
    zeros: int
    counts: str


class StoredRange(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """The range of a tensor.

    Attributes:
        tensor: Its name.
        scope: The nodes whose bodies lead to it; empty for the main graph.
        min: Smallest value; None where the tensor had no values.
        max: Largest value; None where the tensor had no values.
        amax: Largest magnitude.
        count: Number of values.
        histogram: Its histogram; absent for methods that need none.
        unreadable: Why it could not be read; absent where it could.
    """

    tensor: str
    scope: list[str]
    min: float | None
    max: float | None
    amax: float
    count: int
    histogram: StoredHistogram | None = None
    unreadable: str | None = None


class StoredStep(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A step of preparation.

    Attributes:
        step: Its name.
        parameters: What it needs to be made again.
        trial: What a trial of the step showed; absent where there was none.
    """

    step: str
    parameters: dict[str, Any] = {}
    trial: Trial | msgspec.UnsetType = msgspec.UNSET


class StoredModel(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The float model.

    Attributes:
        sha256: Digest of its content, independent of how it is stored.
        preparation: The steps that changed it before the calibration.
        batchnorm_folded: In files of version 1, when there was no other step.
    """

    sha256: str
    preparation: list[StoredStep] = []
    batchnorm_folded: bool | msgspec.UnsetType = msgspec.UNSET


class StoredData(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """The samples.

    Attributes:
        sha256: Digest of their content.
        samples: Number of samples.
        random: Whether they were random.
        seed: Seed of random samples; None for others.
        chunk: Samples of a chunk of the digest; absent in files of an earlier version.
        preprocessing: How files became samples; absent for samples that were arrays.
    """

    sha256: str
    samples: int
    random: bool
    seed: int | None
    chunk: int | None = None
    preprocessing: Preprocessing | None = None


class StoredMethod(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The calibration method.

    Attributes:
        name: Its name.
        parameters: Its parameters.
    """

    name: str
    parameters: dict[str, Any]


class StoredPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The part of the samples that was calibrated.

    Attributes:
        start: Number of its first sample, from 0.
        stop: Number behind its last sample.
        done: Number of the next sample; ``stop`` when the part is done.
    """

    start: int
    stop: int
    done: int


class RangesFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """A ranges file.

    Attributes:
        schema_version: 2; files of version 1 are still read.
        model: The float model.
        data: The samples.
        method: The calibration method.
        part: The part that was calibrated; absent for all samples.
        tensors: The ranges.
        choosing: In the file of an unfinished calibration: the ranges on the samples that choose.
    """

    schema_version: int
    model: StoredModel
    data: StoredData
    method: StoredMethod
    part: StoredPart | None = None
    tensors: list[StoredRange]
    choosing: list[StoredRange] | None = None
