"""Read inner tensors of a model while it runs, through constants and additional outputs (taps)."""

from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np

from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import Value
from qdqtool.models.options import Profile
from qdqtool.models.running.ort_errors import LoopShapeError
from qdqtool.models.running.own_evaluator import open_session
from qdqtool.models.running.own_support import plan_split
from qdqtool.models.scratch import Closing
from qdqtool.models.transforms.taps import Tap, tap_tensors, tensor_key
from qdqtool.numerics.dtypes import Array

Run = Mapping[str, Array]
"""The arrays that one run returned, by output name."""


def is_fed(value: Value) -> bool:
    """Return whether samples provide a tensor: an input of the model without an initializer as default."""
    return value.is_input and not value.scope.path and value.initializer is None


class Observer(Closing):
    """A session that also returns inner tensors."""

    def __init__(self, index: ModelIndex, values: Iterable[Value], profile: Profile = Profile.SEMANTIC) -> None:
        self._index = index
        self._values = list(values)
        self._profile = profile
        self._open(self._values)

    def close(self) -> None:
        """Close the session."""
        self._session.close()

    def run(self, feeds: Mapping[str, Array]) -> Run:
        """Run the model once.

        A tensor whose shape changes from one loop iteration to the next cannot be stacked. In that case no tensor in
        any loop is read, and :meth:`problem` gives the reason.
        """
        try:
            return self._session.run(feeds, self._outputs)
        except LoopShapeError:
            if not self._stacked():
                raise
        self._give_up_loops()
        return self._session.run(feeds, self._outputs)

    def taps(self, value: Value) -> tuple[Tap, ...]:
        """Return the taps of a tensor; empty if the tensor cannot be read."""
        return self._taps.get(tensor_key(value), ())

    def problem(self, value: Value) -> str | None:
        """Return why some or all places of a tensor cannot be read, or None if all can."""
        return self._unreachable.get(tensor_key(value))

    def reader(self, run: Run, tap: Tap, iterations: tuple[int, ...]) -> Callable[[Value], Array | None]:
        """Return :meth:`at` with all arguments bound except the tensor."""
        return lambda value: self.at(run, value, tap, iterations)

    def at(self, run: Run, value: Value, tap: Tap, iterations: tuple[int, ...]) -> Array | None:
        """Return ``value`` as it was when the node of ``tap`` ran in the given iterations, or None if unreadable.

        Args:
            run: The arrays that the run returned.
            value: A tensor of the scope of that node, or of a scope around it.
            tap: The tap of an output of that node.
            iterations: The iteration of each loop around the node.
        """
        constant = self._index.constant(value)
        if constant is not None:
            return constant
        around = [own for own in self.taps(value) if own.hops == tap.hops[: len(own.hops)]]
        if not around:
            return None
        nearest = max(around, key=lambda own: len(own.hops))
        return np.asarray(run[nearest.output][iterations[: nearest.stacked]])

    def output(self, run: Run, value: Value) -> Array | None:
        """Return the value of a model output in a run."""
        return self.at(run, value, Tap(value.name), ())

    def occurrences(self, run: Run, value: Value) -> Iterator[tuple[Array, Tap, tuple[int, ...]]]:
        """Yield the values of a tensor in a run, one for each call and loop iteration around it, with their place."""
        for tap in self.taps(value):
            whole = run[tap.output]
            if whole.size:
                for iterations in np.ndindex(whole.shape[: tap.stacked]):
                    yield np.asarray(whole[iterations]), tap, iterations

    def arrays(self, run: Run, sample: Mapping[str, Array], value: Value) -> Iterator[Array]:
        """Yield the values of a tensor in a run, with iterations stacked; for a model input, the sample's array."""
        if is_fed(value):
            yield sample[value.name]
            return
        for tap in self.taps(value):
            yield run[tap.output]

    def each(self, run: Run, sample: Mapping[str, Array], value: Value) -> Iterator[Array]:
        """Yield one array for each call and loop iteration of a tensor; for a model input, the sample's array."""
        if is_fed(value):
            yield sample[value.name]
        yield from (array for array, _, _ in self.occurrences(run, value))

    def _open(self, values: Iterable[Value]) -> None:
        tapped = tap_tensors(self._index.view, values, self._index.elem_type)
        self._taps, self._unreachable = tapped.report.places, dict(tapped.report.unreachable)
        self._session = open_session(tapped.model, plan_split(self._index, self._profile), self._profile)
        self._outputs = tuple(dict.fromkeys(tap.output for taps in self._taps.values() for tap in taps))

    def _stacked(self) -> list[Value]:
        return [value for value in self._values if any(tap.stacked for tap in self.taps(value))]

    def _give_up_loops(self) -> None:
        given_up = self._stacked()
        self._session.close()
        self._values = [value for value in self._values if value not in given_up]
        self._open(self._values)
        reason = "it is in a loop with a tensor whose shape changes between iterations"
        self._unreachable.update({tensor_key(value): reason for value in given_up})
