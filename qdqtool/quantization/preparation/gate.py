"""The gate on preparation: a step may change the outputs and the inputs of products by rounding only.

Equal outputs alone prove little: a saturated Softmax gives the same output for every input. So the tensors that are
multiplied with weights, and therefore get pairs, are compared too.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from onnx import TensorProto

from qdqtool.models.graph.io.tensors import iter_tensors
from qdqtool.models.graph.model import Model
from qdqtool.models.transforms.taps import TensorKey, tensor_key
from qdqtool.numerics.dtypes import Array
from qdqtool.numerics.product import Factors
from qdqtool.quantization.calibration_report import GATE_LIMIT
from qdqtool.quantization.preparation.step import ProposedChange
from qdqtool.quantization.statistics.channel_statistics import product_inputs
from qdqtool.quantization.statistics.float_runs import FloatRuns, Outputs
from qdqtool.samples.feeds import Feeds

HALF_GATE_LIMIT: Final = 2.0**-8
"""The limit for float16 weights, which are rounded to float16 again: about 8 roundings, and half a step of int8.
Measured on the real models in float16: up to 1e-3.
"""

INNER_SAMPLES = 2
"""Number of samples on which inner tensors are compared."""

MAX_VALUES = 1 << 23
"""Largest number of values of inner tensors to keep of one sample: 32 MiB. Further tensors are not compared."""


def gate_limit(model: Model) -> float:
    """Return the largest change of outputs by preparation that rounding in the type of the weights explains."""
    half = any(tensor.data_type == TensorProto.FLOAT16 for tensor in iter_tensors(model.proto))
    return HALF_GATE_LIMIT if half else GATE_LIMIT


class PreparationGate:
    """Compares changed models with the given model. Both run in the same way, so only the change makes a difference."""

    def __init__(self, given: Model, feeds: Feeds, runs: FloatRuns) -> None:
        self._given = given
        self._feeds = feeds
        self._runs = runs
        self.limit = gate_limit(given)

    def difference(self, previous: Model, change: ProposedChange) -> float:
        """Return the largest relative difference that a change makes.

        Outputs are compared with the given model: the largest difference over the largest magnitude. Inputs of products
        are compared with the model before the change, if both models have them: the ratio of the root mean squares of
        difference and tensor. Channels that the change divides by factors are multiplied by them again.

        Returns:
            The result is infinity if shapes differ, or if an element is NaN or infinite in only one of the two.
        """
        before = self._inner(previous, {})
        after = self._inner(change.model, change.rescaled)
        pairs = list(zip(before, after, strict=True))
        expected = self._runs.first(self._given, self._feeds)
        outputs = largest_difference(expected, self._runs.first(change.model, self._feeds))
        return max(
            [
                outputs,
                *(_relative_error(found[key], other[key]) for found, other in pairs for key in found.keys() & other),
            ]
        )

    def _inner(self, model: Model, rescaled: Mapping[TensorKey, Factors]) -> list[dict[TensorKey, Array]]:
        """Return the inputs of products, by sample, with the channels of some tensors multiplied by factors."""
        index = self._runs.index_of(model)
        axes = dict(product_inputs(index))
        feeds = self._feeds.first(INNER_SAMPLES)
        observer = self._runs.observer(model, axes)
        found: list[dict[TensorKey, Array]] = []
        for number, sample in enumerate(feeds):
            run = self._runs.run(sample, number, feeds)
            kept: dict[TensorKey, Array] = {}
            for value, axis in axes.items():
                arrays = list(observer.each(run, sample, value))
                if len(arrays) == 1 and sum(array.size for array in kept.values()) + arrays[0].size <= MAX_VALUES:
                    kept[tensor_key(value)] = _multiplied(arrays[0], rescaled.get(tensor_key(value)), axis)
            found.append(kept)
        return found


def _relative_error(before: Array, after: Array) -> float:
    """Return the norm of the difference over the norm of the tensor; infinity in the same cases as for outputs."""
    reference, other = before.astype(np.float64), after.astype(np.float64)
    if not np.isfinite(_distance(reference, other)):
        return float("inf")
    finite = np.isfinite(reference)
    difference = np.linalg.norm(np.where(finite, other, 0.0) - np.where(finite, reference, 0.0))
    return _ratio(float(difference), float(np.linalg.norm(np.where(finite, reference, 0.0))))


def _multiplied(array: Array, factors: Factors | None, axis: int) -> Array:
    """Return a copy with multiplied channels. A view would keep the whole memory of the session alive."""
    if factors is None or array.ndim < 2 or array.shape[axis] != factors.size:
        return array.copy()
    shape = [1] * array.ndim
    shape[axis] = -1
    return np.asarray(array.astype(np.float64) * factors.reshape(shape))


def largest_difference(expected: Sequence[Outputs], found: Sequence[Outputs]) -> float:
    """Return the largest difference of any output, relative to its largest magnitude in all runs.

    Returns:
        The result is infinity if shapes differ, or if an element is NaN or infinite in only one of the two.
    """
    peaks: dict[str, float] = {}
    differences: dict[str, float] = {}
    for before, after in zip(expected, found, strict=True):
        for name, array in before.items():
            reference, other = array.astype(np.float64), after[name].astype(np.float64)
            peak = np.max(np.abs(reference), initial=0.0, where=np.isfinite(reference))
            peaks[name] = max(peaks.get(name, 0.0), float(peak))
            differences[name] = max(differences.get(name, 0.0), _distance(reference, other))
    return max((_ratio(differences[name], peaks[name]) for name in peaks), default=0.0)


def _distance(reference: Array, other: Array) -> float:
    """Return the largest difference of two arrays; equal infinities (as in masked scores) and NaN in both are equal."""
    if reference.shape != other.shape:
        return np.inf
    differs = (reference != other) & ~(np.isnan(reference) & np.isnan(other))
    difference = np.max(np.abs(reference[differs] - other[differs]), initial=0.0)
    return float(np.nan_to_num(difference, nan=np.inf, posinf=np.inf))


def _ratio(difference: float, peak: float) -> float:
    return difference / peak if peak else (np.inf if difference else 0.0)
