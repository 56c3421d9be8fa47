"""Find the node that first made the NaN or infinity in a tensor; subgraphs and local functions are searched too.

One sample is run again with every tensor readable. The search goes from the tensor back to its producers, as long as an
input has NaN or infinity too. At a node with subgraphs the search continues inside, in the first iteration that made
such a value. Intended infinities, as in attention masks, are reported only if they cause a NaN.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import numpy.typing as npt

from qdqtool.errors import QdqError
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import NodeView, Scope, Value
from qdqtool.models.running.observer import Observer, Run, is_fed
from qdqtool.models.transforms.taps import Hop, Tap, hop_into
from qdqtool.numerics.dtypes import Array

_Good = Callable[[Array], npt.NDArray[np.bool_]]
"""Returns a mask of the good elements of an array."""


def first_nonfinite(index: ModelIndex, sample: Mapping[str, Array], values: Iterable[Value]) -> str:
    """Describe the origin of a NaN or infinity in a tensor.

    Args:
        index: The model.
        sample: The inputs.
        values: Tensors of any scope; at least one has a NaN or infinity.

    Returns:
        ``first made by`` a node, with the tensor that it makes, or ``it comes from`` an input or a constant. Empty if
        the reference session, which runs without optimizations, makes no such value.
    """
    try:
        with _Reading(index, sample, (_Frame(index.view.main),)) as reading:
            return next(filter(None, (_behind(reading, value) for value in values)), "")
    except QdqError:
        return ""


@dataclass(frozen=True, slots=True)
class _Frame:
    """One execution of a scope inside an execution of the scope around it.

    Attributes:
        scope: The scope.
        hop: How to enter the scope, as in :attr:`Tap.hops`; None for the main graph.
        iteration: Loop iteration, if the scope is the body of a loop; else None.
    """

    scope: Scope
    hop: Hop | None = None
    iteration: int | None = None


class _Reading:
    """A run in which every float tensor of the frames' scopes can be read."""

    def __init__(self, index: ModelIndex, sample: Mapping[str, Array], frames: tuple[_Frame, ...]) -> None:
        self.index = index
        self.sample = sample
        self.frames = frames
        self._observer = Observer(index, [value for frame in frames for value in _made(index, frame.scope)])
        self._run: Run = {}

    def __enter__(self) -> Self:
        self._observer.__enter__()
        self._run = self._observer.run(self.sample)
        return self

    def __exit__(self, *error: object) -> None:
        self._observer.__exit__(*error)

    @property
    def hops(self) -> tuple[Hop, ...]:
        return tuple(frame.hop for frame in self.frames if frame.hop is not None)

    @property
    def iterations(self) -> tuple[int, ...]:
        return tuple(frame.iteration for frame in self.frames if frame.iteration is not None)

    def holds(self, value: Value, is_good: _Good) -> bool:
        """Return whether ``value``, as the innermost scope sees it, has elements that are not good."""
        array = self._array(value)
        return array is not None and array.dtype.kind == "f" and not is_good(array).all()

    def enter_first(self) -> Value | None:
        """Go to the first iteration in which the innermost scope makes NaN or infinity; return the first such value."""
        found: list[tuple[int, int, Value, bool]] = []
        for order, value in enumerate(_made(self.index, self.frames[-1].scope)):
            for tap in self._observer.taps(value):
                whole = self._run[tap.output]
                if tap.hops != self.hops or not whole.size:
                    continue
                loops = tap.stacked > len(self.iterations)
                part = whole[self.iterations] if loops else whole[self.iterations][np.newaxis]
                bad = [number for number, each in enumerate(part) if not np.isfinite(each).all()]
                found += [(number, order, value, loops) for number in bad[:1]]
        if not found:
            return None
        iteration, _, value, loops = min(found, key=lambda each: each[:2])
        inner = replace(self.frames[-1], iteration=iteration if loops else None)
        self.frames = (*self.frames[:-1], inner)
        return value

    def _array(self, value: Value) -> Array | None:
        if is_fed(value):
            return self.sample[value.name]
        return self._observer.at(self._run, value, Tap("", self.hops), self.iterations)


def _behind(reading: _Reading, value: Value) -> str:
    """Explain NaN or infinity in a tensor of any scope, seen from the main graph; "" for a tensor without them."""
    scope = value.scope
    if not scope.path:
        return _origin(reading, value) if reading.holds(value, _is_finite) else ""
    owner = None
    while scope.owner is not None:
        owner, scope = scope.owner, scope.owner.scope
    around = [owner] if owner is not None and not scope.path else reading.index.view.main.nodes
    return next(filter(None, (_inside(reading, node) for node in around)), "")


def _origin(reading: _Reading, value: Value) -> str:
    """Follow NaN or infinity from a tensor back to the first node, input or constant that has it, and describe it."""
    # A NaN is followed back through NaN only: an infinity before it (such as a mask) may be intended. The node to name
    # is then the one that computes 0 * inf or inf - inf.
    is_nan = reading.holds(value, _is_number)
    wanted = _is_number if is_nan else _is_finite
    while value.producer is not None:
        above = _bad_input(reading, value.producer, wanted)
        if above is None:
            return _inside(reading, value.producer) or _describe_cause(reading, value, is_nan=is_nan)
        value = above
    return f"it comes from the {'input' if is_fed(value) else 'constant'} '{value.qualified_name}'"


def _bad_input(reading: _Reading, node: NodeView, is_good: _Good) -> Value | None:
    return next((value for value in node.present_inputs if reading.holds(value, is_good)), None)


def _inside(reading: _Reading, node: NodeView) -> str:
    """Describe the origin of NaN or infinity in the subgraphs or the called function of a node; "" if there is none."""
    view = reading.index.view
    around = next(number for number, frame in enumerate(reading.frames, 1) if frame.scope is node.scope)
    called = view.called(node)
    for scope in [called] if called is not None else [scope for scope in view.scopes if scope.owner is node]:
        frames = (*reading.frames[:around], _Frame(scope, hop_into(scope, node)))
        with _Reading(reading.index, reading.sample, frames) as inner:
            value = inner.enter_first()
            if value is not None:
                return _origin(inner, value)
    return ""


def _describe_cause(reading: _Reading, value: Value, *, is_nan: bool) -> str:
    node = value.producer
    assert node is not None
    iteration = f" in iteration {', '.join(map(str, reading.iterations))}" if reading.iterations else ""
    cause = _bad_input(reading, node, _is_finite) if is_nan else None
    made_of = f", from the infinities in '{cause.name}'" if cause is not None else ""
    return f"first made by {node.op_type} '{node.label}', tensor '{value.qualified_name}'{iteration}{made_of}"


def _made(index: ModelIndex, scope: Scope) -> Iterator[Value]:
    """Yield the float tensors that the nodes of a scope make."""
    for node in scope.nodes:
        yield from filter(index.is_float, node.present_outputs)


def _is_finite(array: Array) -> npt.NDArray[np.bool_]:
    return np.isfinite(array)


def _is_number(array: Array) -> npt.NDArray[np.bool_]:
    return ~np.isnan(array)
