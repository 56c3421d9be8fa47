"""Following a tensor to the products that read it, through operators that commute with a factor for each channel."""

import enum
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np

from qdqtool.graph.index.constants import Constants
from qdqtool.graph.index.view import NodeView, Scope, Use, Value
from qdqtool.graph.index.weights import StoredWeight, stored_weight

MAX_STEPS = 32


class Layout(enum.Enum):
    """Where the channels of a tensor lie: axis 1, as convolutions have them, or the last axis."""

    FIRST = 1
    LAST = -1

    @property
    def axis(self) -> int:
        """The axis."""
        return self.value


class Blocked(Exception):  # noqa: N818  a reason in words, never shown as an error
    """Why factors cannot be moved past a tensor."""


@dataclass(frozen=True, slots=True, eq=False)
class Reader:
    """A product that reads a tensor with factors.

    Attributes:
        weight: Its weight, whose input channels take the factors.
        tensor: What it reads.
        layout: Where the channels of that lie.
        repeat: How many neighbouring input channels share a factor: more than one behind a Flatten.
    """

    weight: StoredWeight
    tensor: Value
    layout: Layout
    repeat: int = 1


class Walk:
    """Finds the readers of one tensor.

    Args:
        channels: How many channels the tensor has.
        constants: Folded constants of the model.
        scope: The scope that all readers must stand in.
        returned: Tensors that a body returns although a scope around it makes them.
    """

    def __init__(self, channels: int, constants: Constants, scope: Scope, returned: AbstractSet[Value]) -> None:
        self._channels = channels
        self._constants = constants
        self._scope = scope
        self._returned = returned

    def readers(self, value: Value, layout: Layout, steps: int = MAX_STEPS) -> Iterator[Reader]:
        """Every product that reads ``value``, at once or through operators that commute.

        Raises:
            Blocked: Anything else reads it too.
            WeightProblem: The weight of a reader cannot be changed.
        """
        if value.is_output or value in self._returned:
            raise Blocked(f"'{value.name}' is an output of the graph")
        if not value.uses:
            raise Blocked(f"nothing reads '{value.name}'")
        if not steps:
            raise Blocked("the way to its readers is too long")
        for use in value.uses:
            yield from self._through(use, value, layout, steps)

    def _through(self, use: Use, value: Value, layout: Layout, steps: int) -> Iterator[Reader]:
        node = use.node
        if node.scope is not self._scope:
            raise Blocked(f"a branch or loop body reads '{value.name}'")
        if use.index == 0 and node.is_op("Conv", "ConvTranspose", "Gemm", "MatMul"):
            yield self._reader(node, value, layout)
            return
        commutes = _COMMUTING.get(node.op_type) if not node.domain and not node.is_parametric else None
        behind = commutes(node, layout, self._constants) if commutes is not None and use.index == 0 else None
        output = node.output()
        if behind is None or output is None or sum(map(bool, node.proto.output)) != 1:
            raise Blocked(f"{node.op_type} '{node.label}' reads '{value.name}', and does not commute with factors")
        yield from self.readers(output, behind, steps - 1)

    def _reader(self, node: NodeView, value: Value, layout: Layout) -> Reader:
        weight = stored_weight(node, self._constants)
        is_convolution = node.is_op("Conv", "ConvTranspose")
        if is_convolution != (layout is Layout.FIRST) and not node.is_op("Gemm"):
            raise Blocked(f"'{node.label}' reads '{value.name}' with its channels on another axis")
        repeat, rest = divmod(weight.layout.inputs, self._channels)
        if rest or (is_convolution and repeat != 1):
            raise Blocked(f"'{node.label}' does not read the channels of '{value.name}' one by one")
        return Reader(weight, value, layout, repeat)


def _as_before(node: NodeView, layout: Layout, constants: Constants) -> Layout | None:
    del node, constants
    return layout


def _inference_only(node: NodeView, layout: Layout, constants: Constants) -> Layout | None:
    del constants
    return None if node.input_name(2) else layout


def _positive_leak(node: NodeView, layout: Layout, constants: Constants) -> Layout | None:
    """LeakyRelu commutes whatever its slope; PRelu too, if the slope is constant and no factor is moved into it."""
    slope = node.input(1)
    return layout if slope is not None and constants.is_constant(slope) else None


def _over_space(node: NodeView, layout: Layout, constants: Constants) -> Layout | None:
    del node, constants
    return layout if layout is Layout.FIRST else None


def _flatten(node: NodeView, layout: Layout, constants: Constants) -> Layout | None:
    del constants
    return Layout.LAST if node.attribute("axis", 1) == 1 and layout is Layout.FIRST else None


def _reshape(node: NodeView, layout: Layout, constants: Constants) -> Layout | None:
    """A Reshape that does what Flatten does: ``[0, n]`` keeps the batch and joins the rest."""
    shape = _integers(node.input(1), constants)
    flat = shape is not None and len(shape) == 2 and shape[0] == 0 and not node.attribute("allowzero", 0)
    return Layout.LAST if flat and layout is Layout.FIRST else None


def _reduce(node: NodeView, layout: Layout, constants: Constants) -> Layout | None:
    """Over the axes behind the channels."""
    axes = node.attribute("axes") or _integers(node.input(1), constants)
    past = axes is not None and len(axes) > 0 and all(axis > 1 for axis in axes)
    return layout if past and layout is Layout.FIRST else None


def _pad(node: NodeView, layout: Layout, constants: Constants) -> Layout | None:
    """With zeros or with what is there already, and never more channels."""
    pads = node.attribute("pads") or _integers(node.input(1), constants)
    if pads is None or layout is not Layout.FIRST or node.input_name(3):
        return None
    fill = node.input(2)
    filled = constants.array(fill) if fill is not None else np.float32(node.attribute("value", 0.0))
    zero = filled is not None and not np.any(filled)
    rank = len(pads) // 2
    return layout if zero and rank > 2 and not (pads[1] or pads[rank + 1]) else None


def _integers(value: Value | None, constants: Constants) -> list[int] | None:
    array = constants.array(value) if value is not None else None
    return [int(entry) for entry in array.reshape(-1)] if array is not None else None


_COMMUTING: dict[str, Callable[[NodeView, Layout, Constants], Layout | None]] = {
    "Relu": _as_before,
    "LeakyRelu": _as_before,
    "Identity": _as_before,
    "Dropout": _inference_only,
    "PRelu": _positive_leak,
    "MaxPool": _over_space,
    "AveragePool": _over_space,
    "GlobalAveragePool": _over_space,
    "GlobalMaxPool": _over_space,
    "ReduceMean": _reduce,
    "ReduceMax": _reduce,
    "Squeeze": _reduce,
    "Flatten": _flatten,
    "Reshape": _reshape,
    "Pad": _pad,
}
