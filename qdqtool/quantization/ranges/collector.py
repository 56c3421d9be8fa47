"""Run a model over data and collect the ranges of its tensors.

While a sample runs, another thread counts the tensors of the previous sample, and then frees them.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from qdqtool.errors import UsageError
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import Value
from qdqtool.models.running.nonfinite import first_nonfinite
from qdqtool.models.running.observer import Observer, is_fed
from qdqtool.models.transforms.taps import tensor_key
from qdqtool.numerics.counting import Counter, Table, new_table
from qdqtool.numerics.dtypes import Array
from qdqtool.quantization.ranges.histogram import Histogram, exponent_for, widen
from qdqtool.quantization.ranges.types import CHUNK, UNSEEN, Ranges, RangesPart, TensorKey, TensorRange
from qdqtool.quantization.statistics.float_runs import FloatRuns
from qdqtool.samples.feeds import Feeds, Progress
from qdqtool.samples.sample import sample_digest


class TensorStatistics:
    """Counts arrays of one tensor; the result does not depend on their order or on the grouping of values.

    Args:
        counter: Counts the histogram; None for no histogram.
    """

    def __init__(self, counter: Counter | None = None) -> None:
        self._counter = counter
        self._range = UNSEEN
        self._exponent: int | None = None
        self._table: Table | None = None

    def add(self, array: Array) -> bool:
        """Count an array and return True if all its values are finite; else return False and count nothing."""
        seen = range_of(array)
        if not np.isfinite(seen.amax):
            return False
        self._range = self._range.merge(seen)
        if self._counter is not None and array.size:
            self._count(array, seen.amax, self._counter)
        return True

    def result(self) -> TensorRange:
        """Return the range so far."""
        if self._table is None:
            return self._range
        histogram = Histogram(self._exponent, self._table[1:].copy(), int(self._table[0]))
        return replace(self._range, histogram=histogram)

    def _count(self, array: Array, amax: float, counter: Counter) -> None:
        if self._table is None:
            self._table = new_table()
        exponent = exponent_for(amax)
        if exponent is None:
            self._table[0] += array.size
            return
        if self._exponent is None or exponent > self._exponent:
            if self._exponent is not None:
                self._table[1:] = widen(self._table[1:], exponent - self._exponent)
            self._exponent = exponent
        counter.count(array, self._exponent, self._table)


def range_of(array: Array) -> TensorRange:
    """Return the range of the values of one array; NaN if any value is NaN."""
    if not array.size:
        return UNSEEN
    # Adding 0.0 turns -0.0 into 0.0: which zero min() and max() return depends on the order of the values.
    low, high = float(array.min()) + 0.0, float(array.max()) + 0.0
    return TensorRange(low, high, max(abs(low), abs(high)), array.size)


class CollectedRanges(ABC):
    """The merged ranges of a collector: on all samples, and on the selection samples only.

    Attributes:
        unreadable: Why a tensor could not be read in at least one sample; such a tensor is treated as unseen.
    """

    def __init__(self, keys: Iterable[TensorKey], *, holds_back: bool) -> None:
        self._ranges: dict[TensorKey, TensorRange] = dict.fromkeys(keys, UNSEEN)
        self._choosing = dict(self._ranges) if holds_back else None
        self.unreadable: dict[TensorKey, str] = {}

    @property
    def ranges(self) -> dict[TensorKey, TensorRange]:
        """The ranges of the merged samples. A tensor that could not be read in a sample has no range."""
        return self._readable(self._ranges)

    @property
    def choosing(self) -> dict[TensorKey, TensorRange] | None:
        """The ranges on selection samples only; None if there are no hold-out samples, or the ranges are unknown."""
        return None if self._choosing is None else self._readable(self._choosing)

    @abstractmethod
    def chunks(
        self, feeds: Feeds, digests: Sequence[bytes], part: RangesPart, progress: Progress | None = None
    ) -> Iterator[int]:
        """Run the remaining samples of a part; yield one past the last finished sample."""

    def resume(self, ranges: Ranges) -> None:
        """Continue from ranges of the same tensors."""
        self._ranges.update(ranges.tensors)
        self.unreadable.update(ranges.unreadable)
        if self._choosing is not None:
            self._choosing = None if ranges.choosing is None else dict(ranges.choosing)

    def merge(self, tensors: Mapping[TensorKey, TensorRange], choosing: Mapping[TensorKey, TensorRange]) -> None:
        """Add the ranges of more samples."""
        for key, found in tensors.items():
            self._ranges[key] = self._ranges[key].merge(found)
            if self._choosing is not None:
                self._choosing[key] = self._choosing[key].merge(choosing[key])

    def _readable(self, ranges: Mapping[TensorKey, TensorRange]) -> dict[TensorKey, TensorRange]:
        return {key: UNSEEN if key in self.unreadable else found for key, found in ranges.items()}


@dataclass(frozen=True, slots=True)
class _Taken:
    """The result of running one sample: the arrays of each tensor."""

    number: int
    sample: Mapping[str, Array]
    arrays: Sequence[tuple[Value, Sequence[Array]]]


class RangeCollector(CollectedRanges):
    """Collects the ranges of some tensors of a model over data.

    Args:
        index: The index of the model.
        values: Tensors of any scope, inputs included.
        runs: Runs the model.
        histograms: Whether histograms are counted too.
        held: Numbers of the hold-out samples. Ranges of the other samples are also collected separately.
    """

    def __init__(
        self,
        index: ModelIndex,
        values: Iterable[Value],
        runs: FloatRuns,
        *,
        histograms: bool = False,
        held: Collection[int] = (),
    ) -> None:
        self._index = index
        self._runs = runs
        self._values = list(dict.fromkeys(values))
        self._counter = Counter() if histograms else None
        self._held = frozenset(held)
        super().__init__(map(tensor_key, self._values), holds_back=bool(self._held))

    def chunks(
        self, feeds: Feeds, digests: Sequence[bytes], part: RangesPart, progress: Progress | None = None
    ) -> Iterator[int]:
        """Run the remaining samples of a part; yield after each chunk.

        Args:
            feeds: All samples.
            digests: The digest of each sample, to detect data that changed since it was checked.
            part: The samples to run.
            progress: Called for every sample of the part.

        Yields:
            One past the last finished sample.
        """
        observer = self._runs.observer(self._index.view.model, self._values)
        with ThreadPoolExecutor(1) as beside:
            chunk = _Chunk(self._values, self._counter, digests, self._held)
            for number, sample in islice(enumerate(feeds), part.done, part.stop):
                if progress is not None:
                    progress(number - part.start, part.stop - part.start)
                run = self._runs.run(sample, number, feeds)
                self._raise_for(chunk.wait(), feeds)
                arrays = [(value, list(observer.arrays(run, sample, value))) for value in self._values]
                chunk.counting = beside.submit(chunk.count, _Taken(number, sample, arrays))
                # Arrays of one sample take the most memory of a calibration; now only the counting thread needs them.
                del run, arrays
                if (number + 1) % CHUNK and number + 1 < part.stop:
                    continue
                self._raise_for(chunk.wait(), feeds)
                self._end(chunk, observer)
                yield number + 1
                chunk = _Chunk(self._values, self._counter, digests, self._held)

    def _end(self, chunk: "_Chunk", observer: Observer) -> None:
        choosing = {key: counted.result() for key, counted in chunk.choosing.items()}
        self.merge({key: found.merge(chunk.held[key].result()) for key, found in choosing.items()}, choosing)
        problems = ((tensor_key(value), observer.problem(value)) for value in self._values if not is_fed(value))
        self.unreadable.update({key: why for key, why in problems if why is not None})

    def _raise_for(self, fault: "_Fault | None", feeds: Feeds) -> None:
        if fault is None:
            return
        taken = fault.taken
        if fault.value is not None:
            raise _nonfinite(fault.value, fault.array, taken.number, self._index, taken.sample)
        raise UsageError(
            f"sample {taken.number} of {feeds.description.source} changed since it was checked",
            hint="the data must give the same samples each time it is read; shuffle with a fixed seed",
        )


@dataclass(frozen=True, slots=True)
class _Fault:
    """A fault of a sample: in an array of a tensor or, without a tensor, in the sample itself."""

    taken: _Taken
    value: Value | None
    array: Array


class _Chunk:
    """The statistics of the samples of one chunk: selection samples and hold-out samples separately."""

    def __init__(
        self, values: Sequence[Value], counter: Counter | None, digests: Sequence[bytes], held: frozenset[int]
    ) -> None:
        self.choosing = {tensor_key(value): TensorStatistics(counter) for value in values}
        self.held = {tensor_key(value): TensorStatistics(counter) for value in values}
        self._numbers_held = held
        self.counting: Future[_Fault | None] | None = None
        self._counter = counter
        self._digests = digests

    def count(self, taken: _Taken) -> _Fault | None:
        """Count one sample, and return its fault, or None if it has none."""
        if sample_digest(taken.sample) != self._digests[taken.number]:
            return _Fault(taken, None, np.empty(0))
        if self._counter is not None:
            self._counter.expect(sum(array.nbytes for _, arrays in taken.arrays for array in arrays))
        statistics = self.held if taken.number in self._numbers_held else self.choosing
        for value, arrays in taken.arrays:
            counted = statistics[tensor_key(value)]
            for array in arrays:
                if not counted.add(array):
                    return _Fault(taken, value, array)
        return None

    def wait(self) -> _Fault | None:
        """Wait until the last sample is counted, and return its fault."""
        counting, self.counting = self.counting, None
        return None if counting is None else counting.result()


def _nonfinite(value: Value, array: Array, number: int, index: ModelIndex, sample: Mapping[str, Array]) -> UsageError:
    bad = array[~np.isfinite(array)]
    unseen = "no node makes such values while ONNX Runtime's optimizations are off"
    origin = first_nonfinite(index, sample, [value]) or unseen
    places = f"{bad.size} of {array.size} elements"
    return UsageError(
        f"tensor '{value.qualified_name}' is {bad[0]} on sample {number}, in {places}; {origin}",
        hint="correct the model or leave the sample out; a scale needs finite values",
    )
