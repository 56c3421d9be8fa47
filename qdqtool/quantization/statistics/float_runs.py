"""Run the float model of a job; all steps of the job share one session.

Opening a session of a ResNet-50 takes as long as running three images, and holds its weights in memory twice.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from qdqtool.errors import CapabilityError, ModelError, UsageError
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.soundness import require_sound
from qdqtool.models.graph.index.view import Value
from qdqtool.models.graph.model import Model
from qdqtool.models.options import Profile
from qdqtool.models.running.observer import Observer, Run, is_fed
from qdqtool.models.running.ort_cpu import Session
from qdqtool.models.running.ort_errors import RunError
from qdqtool.models.scratch import Closing
from qdqtool.models.transforms.taps import TensorKey, tensor_key
from qdqtool.numerics.dtypes import Array
from qdqtool.samples.feeds import Feeds
from qdqtool.samples.sample import Samples

KEPT = 3
"""Number of samples whose outputs are kept for a later comparison."""

Outputs = Mapping[str, Array]
"""The outputs of a model in one run, by name."""


def nothing_else(_: ModelIndex) -> tuple[Value, ...]:
    """Return no tensors, for a job in which each step itself declares every tensor that it reads."""
    return ()


class FloatRuns(Closing):
    """Runs a float model and its changed forms; a context manager.

    The model runs in ONNX Runtime with its default optimizations, for speed; they change float results by rounding
    only. A model with Q/DQ nodes runs without optimizations, because they would change more than rounding.

    Args:
        read: Returns the tensors that later steps of the job read, so that one session serves all of them.
        optimized: Whether a float model runs with the optimizations. Without them, a copy gives the same bits.

    Attributes:
        values: Number of values that the last run returned; 0 before the first run.
    """

    def __init__(self, read: Callable[[ModelIndex], Iterable[Value]] = nothing_else, *, optimized: bool = True) -> None:
        self.values = 0
        self._optimized = optimized
        self._read = read
        self._open: _Open | None = None
        self._kept: list[_Kept] = []

    def close(self) -> None:
        """Close the session; the kept outputs remain."""
        if self._open is not None:
            self._open.observer.close()
            self._open = None

    def index_of(self, model: Model) -> ModelIndex:
        """Return the index of a model; for the model of the open session, this is the index of the session."""
        is_open = self._open is not None and self._open.model is model
        return self._open.index if self._open is not None and is_open else ModelIndex.of(model)

    def observer(self, model: Model, values: Iterable[Value]) -> Observer:
        """Return a session with some tensors and the model's outputs as its outputs; the previous session is closed."""
        wanted = [value for value in values if not is_fed(value)]
        if self._open is None or self._open.model is not model or not self._open.has(wanted):
            index = self.index_of(model)
            require_sound(index.view)
            self.close()
            read = [*_outputs(index), *self._read(index), *wanted]
            self._open = _Open(model, index, read, optimized=self._optimized)
        return self._open.observer

    def run(self, sample: Mapping[str, Array], number: int, feeds: Feeds) -> Run:
        """Run the open session on one sample; arguments and errors are those of :func:`run_sample`."""
        assert self._open is not None
        found = run_sample(self._open.observer, sample, number, feeds)
        self.values = sum(array.size for array in found.values())
        if number < KEPT:
            self._kept_of(self._open.model, feeds)[number] = self._open.outputs(found, sample)
        return found

    def first(self, model: Model, feeds: Feeds, count: int = KEPT) -> list[Outputs]:
        """Return the outputs of a model on the first samples; samples with kept outputs are not run again.

        Outputs of the first and of the last model of the job are kept, on :data:`KEPT` samples of the same data.
        """
        found, few = dict(self._kept_of(model, feeds)), feeds.first(count)
        if any(number not in found for number in range(len(few))):
            self.observer(model, ())
            for number, sample in enumerate(few):
                if number not in found and self._open is not None:
                    found[number] = self._open.outputs(self.run(sample, number, feeds), sample)
        return [found[number] for number in range(len(few))]

    def _kept_of(self, model: Model, feeds: Feeds) -> dict[int, Outputs]:
        for kept in self._kept:
            if kept.model is model and kept.samples is feeds.samples:
                return kept.outputs
        self._kept = [*self._kept[:1], _Kept(model, feeds.samples)]
        return self._kept[-1].outputs


@dataclass(frozen=True, slots=True, eq=False)
class _Kept:
    """Outputs of a model by sample number, for one part of the data: other parts have other samples."""

    model: Model
    samples: Samples
    outputs: dict[int, Outputs] = field(default_factory=dict)


class _Open:
    """A session that is open."""

    def __init__(self, model: Model, index: ModelIndex, values: Iterable[Value], *, optimized: bool) -> None:
        self.model, self.index = model, index
        inner = {tensor_key(value): value for value in values if not is_fed(value)}
        self._tapped: set[TensorKey] = set(inner)
        self.observer = _observer(index, inner.values(), optimized=optimized)

    def has(self, values: Iterable[Value]) -> bool:
        return all(tensor_key(value) in self._tapped for value in values)

    def outputs(self, run: Run, sample: Mapping[str, Array]) -> Outputs:
        """Return copies of the model's outputs in a run: an array of the session keeps all memory of the run alive."""
        return {
            value.name: array.copy()
            for value in _outputs(self.index)
            for array in self.observer.arrays(run, sample, value)
        }


def run_sample(
    runner: Observer | Session, sample: Mapping[str, Array], number: int, feeds: Feeds
) -> Mapping[str, Array]:
    """Run one sample.

    Raises:
        UsageError: A node fails on the sample.
    """
    try:
        return runner.run(sample)
    except RunError as error:
        is_random = feeds.description.seed is not None
        random_hint = "the inputs are random; give real ones: `--calib-data DATA`, or other shapes with --input-shapes"
        hint = random_hint if is_random else error.hint
        where = feeds.number_in_data(number)
        raise UsageError(f"the model does not run on sample {where}: {error.message}", hint=hint) from None


def _outputs(index: ModelIndex) -> list[Value]:
    main = index.view.main
    return [main.values[name] for name in main.output_names()]


def _observer(index: ModelIndex, values: Iterable[Value], *, optimized: bool) -> Observer:
    """Open a model; optimize a float model on request, to save time, if the optimized model loads."""
    # ONNX Runtime 1.31.1 fuses a Pad into the next MaxPool, and then refuses pads that are not below the kernel size.
    values = list(values)
    if optimized and not index.qdq.nodes:
        with suppress(ModelError, CapabilityError):
            return Observer(index, values, Profile.DEPLOYED)
    return Observer(index, values, Profile.SEMANTIC)
