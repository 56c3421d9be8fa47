"""Running a model over data and folding what its tensors hold into ranges. No activation outlives its run."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

import numpy as np

from qdqtool.backends.ort_cpu import Profile, Session
from qdqtool.errors import GateError, QdqError, UsageError
from qdqtool.graph.taps import tensor_key
from qdqtool.graph.view import Value
from qdqtool.numerics.dtypes import Array
from qdqtool.pipeline._check_job import Progress, first_nonfinite
from qdqtool.pipeline._observe import Facts, Observer, Run
from qdqtool.pipeline.data import Feeds
from qdqtool.ranges import UNSEEN, TensorKey, TensorRange


class _Hash(Protocol):
    def update(self, data: bytes, /) -> None: ...


class RangeFold:
    """Ranges of some tensors of a model over data.

    The model runs in ONNX Runtime with its default optimizations, as fast as it can: they change a range by rounding
    only. A model that has Q/DQ nodes already runs without, since for those they may change more.

    Args:
        facts: The model.
        values: Tensors of any scope, inputs included.

    Attributes:
        ranges: What was seen so far.
        unreadable: Why a tensor could not be read everywhere; such a tensor counts as unseen.
        digest: Of the samples that were run.
    """

    def __init__(self, facts: Facts, values: Iterable[Value]) -> None:
        self._facts = facts
        self._values = list(dict.fromkeys(values))
        self._digest = hashlib.sha256()
        self.ranges: dict[TensorKey, TensorRange] = {tensor_key(value): UNSEEN for value in self._values}
        self.unreadable: dict[TensorKey, str] = {}

    @property
    def digest(self) -> str:
        """The sha256 of all samples: names, types, shapes and values in order."""
        return self._digest.hexdigest()

    def run(self, feeds: Feeds, progress: Progress | None = None) -> None:
        """Go through all samples.

        Raises:
            UsageError: The model fails on a sample, or one of the tensors has NaN or infinities.
        """
        inner = [value for value in self._values if not _is_fed(value)]
        with Observer(self._facts, inner, _profile(self._facts)) as observer:
            for number, sample in enumerate(feeds):
                if progress is not None:
                    progress(number, len(feeds))
                _add_to_digest(self._digest, sample)
                run = run_sample(observer, sample, number, feeds)
                for value in self._values:
                    self._add(value, list(_arrays(value, observer, run, sample)), number, sample)
            self.unreadable = {tensor_key(v): why for v in inner if (why := observer.problem(v)) is not None}
        self.ranges.update(dict.fromkeys(self.unreadable, UNSEEN))  # half a range would be worse than none

    def _add(self, value: Value, arrays: list[Array], number: int, sample: Mapping[str, Array]) -> None:
        key = tensor_key(value)
        for array in arrays:
            seen = range_of(array)
            if not np.isfinite(seen.amax):
                raise _nonfinite(value, array, number, self._facts, sample)
            self.ranges[key] = self.ranges[key].merge(seen)


def run_sample(
    runner: Observer | Session, sample: Mapping[str, Array], number: int, feeds: Feeds
) -> Mapping[str, Array]:
    """What one sample gives.

    Args:
        runner: The model.
        sample: What to feed.
        number: Its place among ``feeds``, for the message.
        feeds: Where it came from.

    Raises:
        UsageError: A node fails on it.
    """
    try:
        return runner.run(sample)
    except GateError as error:
        is_random = feeds.description.seed is not None
        hint = "the inputs are random; give real ones with --calib-data" if is_random else error.hint
        raise UsageError(f"the model does not run on sample {number}: {error.message}", hint=hint) from None


def range_of(array: Array) -> TensorRange:
    """The range of the values of one array; NaN where any value is NaN."""
    if not array.size:
        return UNSEEN
    low, high = float(array.min()) + 0.0, float(array.max()) + 0.0  # no -0.0: which zero is found depends on the order
    return TensorRange(low, high, max(abs(low), abs(high)), array.size)


def _is_fed(value: Value) -> bool:
    return value.is_input and not value.scope.path and value.initializer is None


def _profile(facts: Facts) -> Profile:
    return Profile.SEMANTIC if facts.qdq.nodes else Profile.DEPLOYED


def _arrays(value: Value, observer: Observer, run: Run, sample: Mapping[str, Array]) -> Iterator[Array]:
    if _is_fed(value):
        yield sample[value.name]
        return
    for tap in observer.taps(value):
        yield run[tap.output]


def _add_to_digest(digest: _Hash, sample: Mapping[str, Array]) -> None:
    for name in sorted(sample):
        array = np.ascontiguousarray(sample[name])
        digest.update(f"{name}\0{array.dtype}\0{list(array.shape)}\0".encode())
        digest.update(array.tobytes())


def _nonfinite(value: Value, array: Array, number: int, facts: Facts, sample: Mapping[str, Array]) -> UsageError:
    bad = array[~np.isfinite(array)]
    try:
        maker = first_nonfinite(facts, sample)
    except QdqError:
        maker = ""  # the message stands without it
    came = f"; the first node to make such values is {maker}" if maker else ""
    return UsageError(
        f"tensor '{value.qualified_name}' has {bad.size} values that are no finite numbers, such as {bad[0]}, "
        f"on sample {number}{came}",
        hint="mend the model or leave the sample out; a scale needs finite values",
    )
