"""Making a float model ready for quantization: BatchNormalizations folded, if that is proven to change nothing."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from qdqtool.backends.ort_cpu import Session
from qdqtool.graph.batchnorm import fold_batchnorm
from qdqtool.graph.model import Model
from qdqtool.numerics.dtypes import Array
from qdqtool.pipeline._statistics import run_sample
from qdqtool.pipeline.data import Feeds

GATE_SAMPLES = 8
"""Samples on which a fold is proven: it changes the same weights for every sample, so more would show the same."""

GATE_LIMIT = 1e-5
"""Largest difference of any output relative to its largest magnitude: some 80 roundings of float32."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchNormFolding:
    """What became of the BatchNormalizations that stand behind a Conv, ConvTranspose or Gemm.

    Attributes:
        found: How many there are.
        folded: Whether they were folded.
        max_difference: Largest difference of an output on calibration samples, relative to the output's largest
            magnitude; None where there was nothing to fold, or the ranges file vouches for it.
        limit: What that difference must not pass.
    """

    found: int
    folded: bool
    max_difference: float | None = None
    limit: float = GATE_LIMIT


@dataclass(frozen=True, slots=True)
class Prepared:
    """The float model that is calibrated and quantized, and how it differs from the one that was given."""

    model: Model
    batchnorm: BatchNormFolding


def prepare(model: Model, feeds: Feeds) -> Prepared:
    """Fold the BatchNormalizations of a model, unless that changes an output on the data by more than rounding.

    Args:
        model: The float model; it is not changed.
        feeds: Calibration data.

    Raises:
        UsageError: The model fails on a sample.
        CapabilityError: ONNX Runtime is not installed or cannot run the model.
    """
    folded, nodes = fold_batchnorm(model)
    if not nodes:
        return Prepared(model, BatchNormFolding(found=0, folded=False))
    difference = largest_difference(model, folded, feeds.first(GATE_SAMPLES))
    harmless = difference <= GATE_LIMIT
    report = BatchNormFolding(found=len(nodes), folded=harmless, max_difference=difference)
    return Prepared(folded if harmless else model, report)


def prepare_as_recorded(model: Model, *, folded: bool) -> Prepared:
    """The model as an earlier calibration prepared it: with its BatchNormalizations folded, or not."""
    result, nodes = fold_batchnorm(model)
    report = BatchNormFolding(found=len(nodes), folded=folded and bool(nodes))
    return Prepared(result if report.folded else model, report)


def largest_difference(before: Model, after: Model, feeds: Feeds) -> float:
    """The largest difference of any output over its largest magnitude; infinite where outputs differ in kind or NaN.

    Both models run in the reference session, so that nothing but the models differs.

    Raises:
        UsageError: A model fails on a sample.
    """
    peaks: dict[str, float] = {}
    differences: dict[str, float] = {}
    with Session(before) as left, Session(after) as right:
        for number, sample in enumerate(feeds):
            expected = run_sample(left, sample, number, feeds)
            _compare(expected, run_sample(right, sample, number, feeds), peaks, differences)
    return max((_ratio(differences[name], peaks[name]) for name in peaks), default=0.0)


def _compare(
    expected: Mapping[str, Array], found: Mapping[str, Array], peaks: dict[str, float], differences: dict[str, float]
) -> None:
    for name, array in expected.items():
        reference, other = array.astype(np.float64), found[name].astype(np.float64)
        difference = np.inf if reference.shape != other.shape else np.max(np.abs(reference - other), initial=0.0)
        peaks[name] = max(peaks.get(name, 0.0), float(np.max(np.abs(reference), initial=0.0)))
        differences[name] = max(differences.get(name, 0.0), float(np.nan_to_num(difference, nan=np.inf)))


def _ratio(difference: float, peak: float) -> float:
    return difference / peak if peak else (np.inf if difference else 0.0)
