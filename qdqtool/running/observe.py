"""Inner tensors of a model while it runs: what is read from constants, what from taps, and how both line up."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
from onnx import TensorProto

from qdqtool.errors import GateError
from qdqtool.graph.index.constants import Constants
from qdqtool.graph.index.qdq import QdqIndex
from qdqtool.graph.index.types import TensorTypes
from qdqtool.graph.index.view import GraphView, Value
from qdqtool.numerics.dtypes import Array
from qdqtool.running.ort_cpu import Profile
from qdqtool.running.own_evaluator import open_session
from qdqtool.running.own_support import Split, plan_split
from qdqtool.transforms.taps import Tap, tap_tensors, tensor_key

Run = Mapping[str, Array]
"""What one run returned, by output name."""

_SHAPE_CHANGES = "Inconsistent shape"


@dataclass(frozen=True, slots=True, eq=False)
class ModelIndex:
    """All that is known of a model before it runs."""

    view: GraphView
    types: TensorTypes
    constants: Constants
    qdq: QdqIndex

    @classmethod
    def of(cls, view: GraphView) -> Self:
        """Index a model."""
        types, constants = TensorTypes(view), Constants(view)
        return cls(view, types, constants, QdqIndex(view, types, constants))

    def split(self) -> Split | None:
        """How the model is divided between ONNX Runtime and our own core; None where ONNX Runtime runs all of it.

        Raises:
            CapabilityError: A node can be run by neither.
        """
        return plan_split(self.view, self.types, self.qdq, self.constants)

    def elem_type(self, value: Value) -> int | None:
        """The ``TensorProto.DataType`` of a tensor, as its Q or DQ says, else as inferred."""
        maker = self.qdq.maker(value)
        if maker is not None and maker.is_quantize:
            return maker.quantized_type
        return self.types.elem_type(value)

    def is_float(self, value: Value) -> bool:
        """Whether a tensor is known to hold float32, float16, bfloat16 or float64."""
        floats = {TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE}
        return self.elem_type(value) in floats

    def is_constant(self, value: Value) -> bool:
        """Whether a tensor can be read without running the model."""
        if not self.constants.is_constant(value):
            return False
        return self.constants.direct(value) is not None or self.constants.array(value) is not None

    def constant(self, value: Value) -> Array | None:
        """The constant that ``value`` holds; None where it has to be observed."""
        return self.constants.array(value) if self.constants.is_constant(value) else None


def is_fed(value: Value) -> bool:
    """Whether samples give a tensor: it is an input of the model that no initializer stands in for."""
    return value.is_input and not value.scope.path and value.initializer is None


class Observer:
    """A session that also returns inner tensors.

    Args:
        index: The model.
        values: The tensors to return.
        profile: How to run it.
    """

    def __init__(self, index: ModelIndex, values: Iterable[Value], profile: Profile = Profile.SEMANTIC) -> None:
        self._index = index
        self._values = list(values)
        self._profile = profile
        self._open(self._values)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the session."""
        self._session.close()

    def run(self, feeds: Mapping[str, Array]) -> Run:
        """Run the model once.

        A tensor whose shape changes from one loop iteration to the next cannot be stacked; then all tensors in loops
        are given up, and :meth:`problem` says so.

        Raises:
            GateError: A node failed.
        """
        try:
            return self._session.run(feeds, self._outputs)
        except GateError as error:
            if _SHAPE_CHANGES not in error.message or not self._stacked():
                raise
        self._give_up_loops()
        return self._session.run(feeds, self._outputs)

    def taps(self, value: Value) -> tuple[Tap, ...]:
        """Where a tensor is read; empty where it cannot be."""
        return self._taps.get(tensor_key(value), ())

    def problem(self, value: Value) -> str | None:
        """Why a tensor cannot be read, or not everywhere."""
        return self._unreachable.get(tensor_key(value))

    def reader(self, run: Run, tap: Tap, iterations: tuple[int, ...]) -> Callable[[Value], Array | None]:
        """:meth:`at` for one node, as a function of the tensor alone."""
        return lambda value: self.at(run, value, tap, iterations)

    def at(self, run: Run, value: Value, tap: Tap, iterations: tuple[int, ...]) -> Array | None:
        """``value`` as a node saw it that made the tensor of ``tap`` in those iterations.

        Args:
            run: What the run returned.
            value: A tensor of the node's scope or of one around it.
            tap: Where the node's own output is read.
            iterations: Iteration of each loop around the node.
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
        """What an output of the model was in a run."""
        return self.at(run, value, Tap(value.name), ())

    def occurrences(self, run: Run, value: Value) -> Iterator[tuple[Array, Tap, tuple[int, ...]]]:
        """Each array that ``value`` was in a run: one for each call and loop iteration around it."""
        for tap in self.taps(value):
            whole = run[tap.output]
            if whole.size:
                for iterations in np.ndindex(whole.shape[: tap.stacked]):
                    yield np.asarray(whole[iterations]), tap, iterations

    def arrays(self, run: Run, sample: Mapping[str, Array], value: Value) -> Iterator[Array]:
        """Every array that ``value`` was in a run, iterations stacked: what was fed for an input of the model."""
        if is_fed(value):
            yield sample[value.name]
            return
        for tap in self.taps(value):
            yield run[tap.output]

    def _open(self, values: Iterable[Value]) -> None:
        tapped = tap_tensors(self._index.view, values, self._index.elem_type)
        self._taps, self._unreachable = tapped.taps, tapped.unreachable
        self._session = open_session(tapped.model, self._index.split(), self._profile)
        self._outputs = tuple(dict.fromkeys(tap.output for taps in self._taps.values() for tap in taps))

    def _stacked(self) -> list[Value]:
        return [value for value in self._values if any(tap.stacked for tap in self.taps(value))]

    def _give_up_loops(self) -> None:
        given_up = self._stacked()
        self._session.close()
        self._values = [value for value in self._values if value not in given_up]
        self._open(self._values)
        reason = "it stands in a loop with a tensor whose shape changes between iterations"
        self._unreachable.update({tensor_key(value): reason for value in given_up})
