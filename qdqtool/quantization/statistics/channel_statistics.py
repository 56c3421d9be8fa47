"""Measure the input channels of weights over a few samples; activations are freed after each run."""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial

import numpy as np

from qdqtool.models import ops
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import Value
from qdqtool.models.graph.model import Model
from qdqtool.models.transforms.taps import TensorKey, tensor_key
from qdqtool.numerics.cores import side_by_side
from qdqtool.numerics.dtypes import Array
from qdqtool.numerics.product import Factors
from qdqtool.quantization.statistics.float_runs import FloatRuns
from qdqtool.samples.feeds import Feeds

MAX_SAMPLES = 128
"""Largest number of samples that are read. A fold has half of the samples, and its peaks represent the peaks of all
samples. On a digit classifier, a change looked 2 dB worse with the peaks of 16 samples than with the peaks of 51.
"""

MIN_SAMPLES_IF_LARGE, MAX_VALUES = 6, 1 << 26
"""Limits the cost for large models: this many samples are enough once this many values were read."""

ROW_SAMPLES = 8
"""Number of samples from which rows are taken."""

FOLDS = 2
"""Number of folds whose peaks are kept separately. Samples alternate between folds, because data is often sorted."""


@dataclass(frozen=True, slots=True, eq=False)
class ChannelStatistics:
    """Peak, mean and mean square of each channel, float64, shape ``(channels,)``.

    Attributes:
        peak: Largest magnitude of each channel.
        mean: Mean of each channel.
        mean_square: Mean of the squares of each channel.
        folds: Largest magnitudes on disjoint parts of the samples, in order: factors found on one part can be tried on
            the others. Empty if only one part computed the tensor.
    """

    peak: Factors
    mean: Factors
    mean_square: Factors
    folds: tuple[Factors, ...] = ()

    def of_fold(self, number: int) -> "ChannelStatistics":
        """Return the statistics with the peaks of one part of the samples only."""
        return ChannelStatistics(self.folds[number], self.mean, self.mean_square)

    def divided(self, factors: Factors) -> "ChannelStatistics":
        """Return the statistics of the same tensor with each channel divided by a positive factor."""
        folds = tuple(peak / factors for peak in self.folds)
        return ChannelStatistics(self.peak / factors, self.mean / factors, self.mean_square / factors**2, folds)


def folded_peaks(peaks: Factors, repeat: int) -> Factors:
    """Return the largest of every ``repeat`` neighboring channels, which share a factor."""
    return np.asarray(peaks.reshape(-1, repeat).max(axis=1), np.float64)


class ChannelData:
    """Statistics of the inputs of products with constant weights, measured in one pass at the first request."""

    def __init__(self, feeds: Feeds, runs: FloatRuns) -> None:
        self.feeds = feeds
        self.runs = runs
        self._seen: dict[TensorKey, ChannelStatistics] | None = None

    def of(self, index: ModelIndex) -> dict[Value, ChannelStatistics]:
        """Return the statistics of the tensors of a model.

        The tensors must have the names of the first model and, except for :meth:`rescale`, its values.

        Tensors are left out if they were not computed, are not finite, or change their number of channels.
        """
        axes = dict(product_inputs(index))
        if self._seen is None:
            self._seen = _observe(index.model, axes, self.feeds.first(MAX_SAMPLES), self.runs) if axes else {}
        keys = {value: tensor_key(value) for value in axes}
        return {value: self._seen[key] for value, key in keys.items() if key in self._seen}

    def means(self, model: Model) -> dict[TensorKey, Factors]:
        """Return the mean of each channel; the model must meet the conditions of :meth:`of`."""
        return {tensor_key(value): found.mean for value, found in self.of(ModelIndex.of(model)).items()}

    def rescale(self, factors: Mapping[TensorKey, Factors]) -> None:
        """Record that the channels of some tensors were divided by factors."""
        for key, by in factors.items():
            if self._seen is not None and key in self._seen:
                self._seen[key] = self._seen[key].divided(by)


def sample_rows(model: Model, values: AbstractSet[Value], data: ChannelData, count: int) -> dict[Value, Array]:
    """Return rows of some tensors, ``[at most count, channels]``, spread evenly over the samples.

    Args:
        model: The float model.
        values: Tensors with their channels on the last axis.
        data: The data; the first :data:`ROW_SAMPLES` samples are run.
        count: Largest number of rows of one tensor; they are kept in memory.
    """
    kept: dict[Value, list[Array]] = {value: [] for value in values}
    feeds = data.feeds.first(ROW_SAMPLES)
    share = max(count // max(len(feeds), 1), 1)
    observer = data.runs.observer(model, values)
    for number, sample in enumerate(feeds):
        run = data.runs.run(sample, number, feeds)
        for value, rows in kept.items():
            for array in observer.each(run, sample, value):
                whole = array.reshape(-1, array.shape[-1])
                # copy(): a view would keep the whole array of the session alive.
                rows.append(whole[:: max(len(whole) // share, 1)][:share].copy())
    return {value: np.concatenate(rows)[:count] for value, rows in kept.items() if rows}


def product_inputs(index: ModelIndex) -> Iterator[tuple[Value, int]]:
    """Yield the activation input of every product with a constant weight, with the axis of its channels."""
    constants = index.constants
    for node in index.view.nodes():
        product = None if node.scope.in_function else ops.product(node)
        layout = product.activation_layout(node) if product is not None else None
        x, weight = node.input(0), node.input(1)
        if layout is None or x is None or weight is None:
            continue
        if constants.is_constant(weight) and not constants.is_constant(x):
            yield x, layout.axis


def _observe(
    model: Model, axes: Mapping[Value, int], feeds: Feeds, runs: FloatRuns
) -> dict[TensorKey, ChannelStatistics]:
    sums = {value: _Sums(axis) for value, axis in axes.items()}
    observer = runs.observer(model, axes)
    for number, sample in enumerate(feeds):
        run = runs.run(sample, number, feeds)
        taken = ((total, tuple(observer.each(run, sample, value))) for value, total in sums.items())
        for _ in side_by_side(partial(_add, number % FOLDS), taken):
            pass
        if number + 1 >= MIN_SAMPLES_IF_LARGE and sum(total.values for total in sums.values()) >= MAX_VALUES:
            break
    whole = [value for value in sums if observer.problem(value) is None]
    found = {tensor_key(value): sums[value].result() for value in whole}
    return {key: result for key, result in found.items() if result is not None}


def _add(fold: int, taken: tuple["_Sums", Sequence[Array]]) -> None:
    total, arrays = taken
    for array in arrays:
        total.add(array, fold)


class _Sums:
    """Peaks and sums of the channels of one tensor."""

    def __init__(self, axis: int) -> None:
        self._axis = axis
        self._peak = self._sum = self._squares = np.zeros(0)
        self._folds: dict[int, Factors] = {}
        self.count = self.values = 0
        self._whole = True

    def add(self, array: Array, fold: int) -> None:
        """Add one more array to the sums and to one fold; the array has any float type and a rank of at least 2."""
        if not array.size:
            return
        channels = array.shape[self._axis] if array.ndim > 1 else 0
        if not channels or (self.count and channels != len(self._peak)):
            self._whole = False
            return
        outer = (array.shape[0], channels, -1) if self._axis == 1 else (-1, channels, 1)
        values = array.reshape(outer).astype(np.float32, copy=False)
        peak = np.maximum(values.max(axis=(0, 2)), -values.min(axis=(0, 2))).astype(np.float64)
        self._peak = np.maximum(self._peak, peak) if self.count else peak
        self._folds[fold] = np.maximum(self._folds.get(fold, peak), peak)
        total = values.sum(axis=(0, 2), dtype=np.float64)
        self._sum = self._sum + total if self.count else total
        # einsum needs no array of squares. float32 is precise enough: factors need only be roughly right.
        squares = np.einsum("ijk,ijk->j", values, values).astype(np.float64)
        self._squares = self._squares + squares if self.count else squares
        self.count += array.size // channels
        self.values += array.size

    def result(self) -> ChannelStatistics | None:
        if not self.count or not self._whole or not np.isfinite(self._squares).all():
            return None
        folds = tuple(self._folds[fold] for fold in range(FOLDS)) if len(self._folds) == FOLDS else ()
        return ChannelStatistics(self._peak, self._sum / self.count, self._squares / self.count, folds)
