"""The largest magnitudes of tensors, and constants that represent infinity.

Exporters write ``-3.4e38`` or ``-1e9`` for minus infinity. Any other large number has the same effect, so such a
constant does not need float32.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from onnx import numpy_helper

from qdqtool.models import ops
from qdqtool.models.graph.index.constants import Array, Constants
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.graph.index.view import Use, Value
from qdqtool.models.transforms.taps import TensorKey, tensor_key
from qdqtool.numerics import formats
from qdqtool.numerics.dtypes import FLOAT32

MAX_DEPTH = 64


@dataclass(slots=True)
class Magnitudes:
    """The largest known magnitude of each tensor.

    Attributes:
        measured: The magnitudes of measured tensors, by scope and name.
        index: The index of the model.
    """

    measured: Mapping[TensorKey, float]
    index: ModelIndex
    _known: dict[Value, float | None] = field(default_factory=dict)

    def of(self, value: Value) -> float | None:
        """Return the largest finite magnitude of the elements of a tensor, or None if it is unknown."""
        return self._of(value, MAX_DEPTH)

    def _of(self, value: Value, depth: int) -> float | None:
        if value not in self._known:
            # Set before the search, so that a cycle ends: the magnitudes of its tensors are unknown.
            self._known[value] = None
            self._known[value] = self._find(value, depth)
        return self._known[value]

    def _find(self, value: Value, depth: int) -> float | None:
        measured = self.measured.get(tensor_key(value))
        if measured is not None:
            return measured
        if self.index.constants.is_constant(value):
            array = self.index.constants.array(value)
            return largest(array) if array is not None else None
        entry = self.index.qdq.dequantizer_of(value)
        if entry is not None:
            return self._of_dequantized(entry)
        node = value.producer
        moved = node.input(0) if node is not None and ops.traits(node).keeps_magnitude else None
        return self._of(moved, depth - 1) if moved is not None and depth else None

    def _of_dequantized(self, entry: QdqNode) -> float | None:
        """Return the product of the largest scale and the largest magnitude of a code."""
        scale = self.index.constants.array(entry.scale) if entry.scale is not None else None
        fmt = formats.by_onnx_type(entry.quantized_type or 0)
        if scale is None or fmt is None:
            return None
        return largest(scale) * max(abs(fmt.low), abs(fmt.high))


def largest(array: Array) -> float:
    """Return the largest finite magnitude in an array, or 0 if no element is finite."""
    if not array.size:
        return 0.0
    # If the array has NaN, min and max return NaN. Most arrays are finite and need no mask.
    low, high = float(array.min()), float(array.max())
    finite = np.isfinite(low) and np.isfinite(high)
    return max(abs(low), abs(high)) if finite else largest(array[np.isfinite(array)])


MAX_STEPS = 16

_BOUNDS = {("Clip", 1): -1, ("Clip", 2): 1, ("Max", 0): -1, ("Max", 1): -1, ("Min", 0): 1, ("Min", 1): 1}
"""Inputs that are bounds, with the sign for which a huge number is a bound without effect."""

# _sign_of_factor defines the effect of these operators on the sign of a huge number.
_JOINING = ("Add", "Concat", "Mul", "Sub", "Where")


@dataclass(frozen=True, slots=True)
class InfinityConstants:
    """The constants of a model that represent infinity.

    Attributes:
        roots: Constants that may be clipped to :attr:`.HalfType.largest`, and tensors that only repeat such a constant.
        carried: Tensors in which some values come from these constants.
    """

    roots: frozenset[Value]
    carried: frozenset[Value]


def find_infinity_constants(index: ModelIndex, limit: float) -> InfinityConstants:
    """Return constants beyond :attr:`.HalfType.largest` that only a Softmax reads, or that bound nothing."""
    roots: set[Value] = set()
    carried: set[Value] = set()
    for value in index.view.values():
        sign = _sign_of_huge(value, index.constants, limit)
        walk = _InfinityWalk(index.constants)
        if sign and value.uses and not value.is_output and walk.is_harmless(value, sign):
            roots.add(value)
            carried |= walk.reached.keys()
    return InfinityConstants(frozenset(roots), frozenset(carried))


def _sign_of_huge(value: Value, constants: Constants, limit: float) -> int:
    """Return the sign of the huge finite numbers in a constant; 0 if there are none, or if both signs occur."""
    huge = [number for number in _huge_numbers(value, constants, limit) if np.isfinite(number)]
    signs = {int(np.sign(number)) for number in huge}
    return signs.pop() if len(signs) == 1 else 0


def _huge_numbers(value: Value, constants: Constants, limit: float) -> Iterable[float]:
    node = value.producer
    array: Array | None = None
    if constants.direct(value) is not None or (node is not None and node.is_op("Constant")):
        array = constants.array(value)
    elif node is not None and node.is_op("ConstantOfShape"):
        fill = node.attribute("value")
        array = numpy_helper.to_array(fill) if fill is not None else None
    if array is None or array.dtype != FLOAT32:
        return ()
    return (float(number) for number in array[np.abs(array) > limit].flat)


class _InfinityWalk:
    """Follows a huge constant to its uses.

    Attributes:
        reached: The tensors that contain the huge number, each with the sign there; 0 if the sign is unknown.
    """

    def __init__(self, constants: Constants) -> None:
        self.reached: dict[Value, int] = {}
        self._constants = constants

    def is_harmless(self, value: Value, sign: int, steps: int = MAX_STEPS) -> bool:
        """Return whether every use is a bound without effect, or leads only to a Softmax as a negative number."""
        return all(self._is_harmless(use, sign, steps) for use in value.uses)

    def _is_harmless(self, use: Use, sign: int, steps: int) -> bool:
        node, output = use.node, use.node.output()
        if (node.op_type, use.index) in _BOUNDS and not node.domain:
            return _BOUNDS[node.op_type, use.index] == sign
        if ops.traits(node).softmax:
            return sign < 0
        carries = node.is_op(*_JOINING) or ops.traits(node).carries_infinity
        if output is None or output.is_output or not output.uses or not steps or not carries:
            return False
        onward = sign * self._sign_of_factor(use)
        if output in self.reached:
            return self.reached[output] == onward
        self.reached[output] = onward
        return self.is_harmless(output, onward, steps - 1)

    def _sign_of_factor(self, use: Use) -> int:
        """Return the factor by which an operator changes the sign; 0 for a Mul by anything except a mask."""
        match use.node.op_type:
            case "Sub":
                return -1 if use.index == 1 else 1
            case "Mul":
                return self._sign_of_flags(use.node.input(1 - use.index))
            case _:
                return 1

    def _sign_of_flags(self, value: Value | None) -> int:
        """Return 1 for a mask of 0 and 1 (cast from integers, or ``1 - mask``), -1 for ``mask - 1``, otherwise 0."""
        for _ in range(MAX_STEPS):
            node = value.producer if value is not None else None
            if node is None:
                return 0
            if node.is_op("Cast"):
                return 1
            if node.is_op("Sub"):
                return 1 if self._is_one(node.input(0)) else -1 if self._is_one(node.input(1)) else 0
            if not ops.traits(node).carries_infinity:
                return 0
            value = node.input(0)
        return 0

    def _is_one(self, value: Value | None) -> bool:
        array = self._constants.array(value) if value is not None else None
        return array is not None and array.size == 1 and float(array.reshape(())) == 1.0
