"""Statistics of the channels of some tensors over a few samples; no activation outlives its run."""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

import numpy as np
import numpy.typing as npt

from qdqtool.algorithms.channels import ChannelStatistics
from qdqtool.backends.ort_cpu import Profile
from qdqtool.graph.view import Value
from qdqtool.numerics.dtypes import Array
from qdqtool.pipeline._observe import Facts, Observer
from qdqtool.pipeline._statistics import run_sample
from qdqtool.pipeline.data import Feeds


def observe_channels(facts: Facts, axes: Mapping[Value, int], feeds: Feeds) -> dict[Value, ChannelStatistics]:
    """Run a model and gather statistics of the channels of some of its tensors.

    Args:
        facts: The float model.
        axes: The tensors, each with the axis of its channels.
        feeds: The samples.

    Returns:
        Statistics of the tensors that were computed and have finite values and the same channels throughout.

    Raises:
        UsageError: The model fails on a sample.
    """
    sums = {value: _Sums(axis) for value, axis in axes.items()}
    with Observer(facts, sums, Profile.DEPLOYED) as observer:
        for number, sample in enumerate(feeds):
            run = run_sample(observer, sample, number, feeds)
            for value, total in sums.items():
                for array in _each(observer, run, value):
                    total.add(array)
        whole = {value for value in sums if observer.problem(value) is None}
    found = {value: total.result() for value, total in sums.items() if value in whole}
    return {value: result for value, result in found.items() if result is not None}


def _each(observer: Observer, run: Mapping[str, Array], value: Value) -> Iterable[Array]:
    return (array for array, _, _ in observer.occurrences(run, value))


def sample_rows(facts: Facts, values: AbstractSet[Value], feeds: Feeds, count: int) -> dict[Value, Array]:
    """The first rows of some tensors, ``[at most count, channels]``, spread evenly over the samples.

    Args:
        facts: The float model.
        values: Tensors with their channels on the last axis.
        feeds: The samples.
        count: Most rows of one tensor: these are kept in memory.

    Raises:
        UsageError: The model fails on a sample.
    """
    kept: dict[Value, list[Array]] = {value: [] for value in values}
    share = max(count // max(len(feeds), 1), 1)
    with Observer(facts, kept, Profile.DEPLOYED) as observer:
        for number, sample in enumerate(feeds):
            run = run_sample(observer, sample, number, feeds)
            for value, rows in kept.items():
                for array in _each(observer, run, value):
                    whole = array.reshape(-1, array.shape[-1])
                    rows.append(whole[:: max(len(whole) // share, 1)][:share].copy())
    return {value: np.concatenate(rows)[:count] for value, rows in kept.items() if rows}


class _Sums:
    """Peaks and sums of the channels of one tensor."""

    def __init__(self, axis: int) -> None:
        self._axis = axis
        self._peak: npt.NDArray[np.float64] | None = None
        self._sum: npt.NDArray[np.float64] = np.zeros(0)
        self._squares: npt.NDArray[np.float64] = np.zeros(0)
        self._count = 0
        self._whole = True

    def add(self, array: Array) -> None:
        if not array.size or array.ndim < 2:
            return
        rows = np.moveaxis(array, self._axis, 0).reshape(array.shape[self._axis], -1)
        if self._peak is None:
            self._peak, self._sum, self._squares = (np.zeros(len(rows)) for _ in range(3))
        if len(rows) != len(self._peak):
            self._whole = False
            return
        self._peak = np.maximum(self._peak, np.maximum(rows.max(axis=1), -rows.min(axis=1)))
        self._sum += rows.sum(axis=1, dtype=np.float64)
        self._squares += np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
        self._count += rows.shape[1]

    def result(self) -> ChannelStatistics | None:
        if self._peak is None or not self._whole or not np.isfinite(self._squares).all():
            return None
        return ChannelStatistics(self._peak, self._sum / self._count, self._squares / self._count)
