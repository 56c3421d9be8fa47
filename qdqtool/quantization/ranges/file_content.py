"""The decoded content of a ranges file (``docs/reference/files.md``); ``file.py`` converts it to ranges."""

from typing import Any

import msgspec

from qdqtool.quantization.calibration_report import Trial
from qdqtool.samples.preprocessing import Preprocessing


class StoredHistogram(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A histogram of magnitudes.

    Attributes:
        exponent: A bin is ``2**exponent`` wide; None if every value is 0.
        zeros: Number of zeros, which are not counted in any bin.
        counts: The counts of the bins: ``3 0*40 17`` for 3, forty zeros, 17; zeros at the end are left out.
    """

    exponent: int | None
    zeros: int
    counts: str


class StoredRange(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """The range of a tensor.

    Attributes:
        tensor: Name of the tensor.
        scope: The nodes whose bodies lead to the tensor; empty for the main graph.
        min: Smallest value; None if the tensor had no values.
        max: Largest value; None if the tensor had no values.
        amax: Largest magnitude.
        count: Number of values.
        histogram: Histogram of the magnitudes; absent for methods that do not need it.
        unreadable: Why the tensor could not be read; absent if it could.
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
    """A preparation step.

    Attributes:
        step: Name of the step.
        parameters: The values that are needed to repeat the step.
        trial: The result of a trial of the step; absent if there was none.
    """

    step: str
    parameters: dict[str, Any] = {}
    trial: Trial | msgspec.UnsetType = msgspec.UNSET


class StoredModel(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The float model.

    Attributes:
        sha256: Digest of the content of the model, however it is stored.
        preparation: The steps that changed the model before the calibration.
        batchnorm_folded: Only in files of version 1, which had no other step.
    """

    sha256: str
    preparation: list[StoredStep] = []
    batchnorm_folded: bool | msgspec.UnsetType = msgspec.UNSET


class StoredData(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """The samples.

    Attributes:
        sha256: Digest of the content of the samples.
        samples: Number of samples.
        random: Whether the samples were random.
        seed: Seed of random samples; None for other samples.
        chunk: Number of samples in a chunk of the digest; absent in files of an earlier version.
        preprocessing: How files became samples; absent if the samples were arrays.
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
        name: Name of the method.
        parameters: Parameters of the method.
    """

    name: str
    parameters: dict[str, Any]


class StoredPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The part of the samples that was calibrated.

    Attributes:
        start: Number of the first sample of the part, from 0.
        stop: One past the number of the last sample of the part.
        done: Number of the next sample to run; ``stop`` if the part is complete.
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
        part: The part of the samples that was calibrated; absent for all samples.
        tensors: The ranges of the tensors.
        choosing: The ranges on the selection samples; only in the file of an unfinished calibration.
    """

    schema_version: int
    model: StoredModel
    data: StoredData
    method: StoredMethod
    part: StoredPart | None = None
    tensors: list[StoredRange]
    choosing: list[StoredRange] | None = None
