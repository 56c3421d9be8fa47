"""Huge constants that stand for infinity: bounds that bound nothing, and masks that a Softmax turns into zeros.

Exporters write ``-3.4e38`` or ``-1e9`` where minus infinity is meant. Such a constant may be any other that is large
enough, so it needs no float32.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from onnx import TensorProto

from qdqtool.graph.constants import Constants
from qdqtool.graph.half.limits import LARGEST
from qdqtool.graph.half.magnitudes import largest
from qdqtool.graph.view import GraphView, Use, Value

MAX_STEPS = 16

_BOUNDS = {"Clip": (1, 2), "Max": (0, 1), "Min": (0, 1), "Pad": (2,)}
"""Inputs that only say what values are cut to, or what is put beside them."""

_JOINING = ("Add", "Concat", "Mul", "Sub", "Where")
_MOVING = (
    "Cast",
    "Expand",
    "Gather",
    "Identity",
    "Reshape",
    "Slice",
    "Squeeze",
    "Tile",
    "Transpose",
    "Trilu",
    "Unsqueeze",
)
_END = ("LogSoftmax", "Softmax")


@dataclass(frozen=True, slots=True)
class StandIns:
    """What stands for infinity in a model.

    Attributes:
        roots: Constants, and tensors filled with one, that may be clipped to :data:`~.limits.LARGEST`.
        carried: Tensors that hold such values among others.
    """

    roots: frozenset[Value]
    carried: frozenset[Value]


def find_stand_ins(view: GraphView, constants: Constants) -> StandIns:
    """Every constant beyond :data:`~.limits.LARGEST` that nothing but bounds and a Softmax ever sees."""
    roots: set[Value] = set()
    carried: set[Value] = set()
    for value in view.values():
        if _is_huge(value, constants):
            reached: set[Value] = set()
            if value.uses and not value.is_output and all(_is_harmless(use, reached, MAX_STEPS) for use in value.uses):
                roots.add(value)
                carried |= reached
    return StandIns(frozenset(roots), frozenset(carried))


def _is_huge(value: Value, constants: Constants) -> bool:
    stored = constants.direct(value)
    if stored is not None:
        array = constants.array(value) if stored.data_type == TensorProto.FLOAT else None
        return array is not None and largest(array) > LARGEST
    node = value.producer
    if node is None or not node.is_op("Constant", "ConstantOfShape"):
        return False
    return any(abs(number) > LARGEST for number in _floats(value) if np.isfinite(number))


def _floats(value: Value) -> Iterator[float]:
    """The numbers in the attributes of a small constant."""
    node = value.producer
    assert node is not None
    for attribute in node.proto.attribute:
        if attribute.name in {"value_float", "value_floats"}:
            yield from (attribute.f, *attribute.floats)
        elif attribute.name == "value" and attribute.t.data_type == TensorProto.FLOAT:
            yield from (attribute.t.float_data or np.frombuffer(attribute.t.raw_data, "<f4").tolist())


def _is_harmless(use: Use, reached: set[Value], steps: int) -> bool:
    """Whether a use is a bound, or leads to a Softmax and to nothing else."""
    node, output = use.node, use.node.output()
    if use.index in _BOUNDS.get(node.op_type, ()) and not node.domain:
        return True
    if node.is_op(*_END):
        return True
    if output is None or output.is_output or not output.uses or not steps or not node.is_op(*_JOINING, *_MOVING):
        return False
    if output not in reached:
        reached.add(output)
        return all(_is_harmless(onward, reached, steps - 1) for onward in output.uses)
    return True
