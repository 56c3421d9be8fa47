"""What the rules share about one model: the indexes, made once, and constants, read once."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from qdqtool import ops
from qdqtool.errors import ModelError
from qdqtool.graph.index.model_index import ModelIndex
from qdqtool.graph.index.qdq import QdqNode, same_constant
from qdqtool.graph.index.view import NodeView, Scope, Value
from qdqtool.graph.io.text import check_text
from qdqtool.graph.model import Model
from qdqtool.ops import ProductOp
from qdqtool.rules.support.memo import Memo
from qdqtool.rules.support.reach import Product, Walk, operand

Array = npt.NDArray[np.generic]
Shape = tuple[int | str | None, ...]


@dataclass(frozen=True, slots=True)
class Bounds:
    """The least and greatest value of a constant; NaN when one of its values is."""

    low: float
    high: float


MAX_STEPS = 64

NO_BOUNDS = Bounds(1.0, 1.0)
"""Of empty constants: what they lack is told by another rule."""

NUMBERS = frozenset("fiuVb")
"""NumPy's kinds of number types; V are those of ml_dtypes."""


class RuleContext:
    """Everything the rules ask about one model.

    Args:
        model: The model, as read from its file.

    Raises:
        ModelError: It has names that are not UTF-8.

    Attributes:
        model: The model.
        index: Its index. The parts that every rule reads stand here too:
        view: Scopes, nodes and tensors.
        constants: Folded constants.
        types: Element types and shapes.
        qdq: Q/DQ nodes.
        nodes: Every node of every scope.
        unreadable: Why a constant cannot be read, for those that :meth:`array` was asked for.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        if model.path is None:  # load_model has looked at the others
            check_text(model.proto)
        self.index = ModelIndex.of(model)
        self.view = self.index.view
        self.constants = self.index.constants
        self.types = self.index.types
        self.qdq = self.index.qdq
        self.nodes: tuple[NodeView, ...] = tuple(self.view.nodes())
        self.unreadable: dict[Value, str] = {}
        self._arrays: dict[Value, Array | None] = {}
        self._bounds: dict[Value, Bounds] = {}
        self._shapes: dict[Value, Shape | None] = {}
        self._elem_types: dict[Value, int | None] = {}
        self._memos: dict[str, Memo[Any]] = defaultdict(Memo)

    def memo(self, code: str) -> Memo[Any]:
        """What the rule of that code has found in the model so far."""
        return self._memos[code]

    @cached_property
    def products(self) -> tuple[Product, ...]:
        """Every node that multiplies with weights."""
        return tuple(self._product(node, op) for node in self.nodes if (op := ops.product(node)) is not None)

    @cached_property
    def readers_of_codes(self) -> Mapping[QdqNode, list[tuple[Product, int]]]:
        """For each DQ the products that read its codes, each with the index of the operand."""
        found: dict[QdqNode, list[tuple[Product, int]]] = defaultdict(list)
        for product in self.products:
            for index, side in ((0, product.left), (product.weight_index, product.right)):
                if side is not None:
                    found[side.dequantize].append((product, index))
        return MappingProxyType(found)

    def _product(self, node: NodeView, op: ProductOp) -> Product:
        walk = Walk(self.index, padded=op.is_convolution)
        left, right = (operand(walk, node.input(index)) for index in (0, op.weight_input))
        return Product(node, op, left, right)

    def array(self, value: Value | None) -> Array | None:
        """The folded constant of a scale or zero point; None where it is not constant, no number or unreadable."""
        if value is None:
            return None
        if value not in self._arrays:
            try:
                found = self.constants.array(self.argument(value))
                self._arrays[value] = found if found is not None and found.dtype.kind in NUMBERS else None
            except ModelError as error:
                self._arrays[value] = None
                self.unreadable[value] = error.message
        return self._arrays[value]

    def argument(self, value: Value) -> Value:
        """What the callers pass for a formal input of a local function, where that is one constant; else ``value``."""
        for _ in range(MAX_STEPS):
            if not (value.is_input and value.scope.is_function):
                break
            index = value.scope.input_names().index(value.name)
            first, *others = [call.input(index) for call in self._calls[function_id(value.scope)]] or [None]
            if first is None or not all(same_constant(first, other, self.constants) for other in others):
                break
            value = first
        return value

    def bounds(self, value: Value, array: Array) -> Bounds:
        """The bounds of ``array``, the constant that ``value`` folds to."""
        if value not in self._bounds:
            self._bounds[value] = _bounds(array)
        return self._bounds[value]

    def elem_type(self, value: Value | None) -> int | None:
        """The ``TensorProto.DataType`` of a tensor, or None where it is unknown."""
        if value is None:
            return None
        if value not in self._elem_types:
            self._elem_types[value] = self._elem_type(value)
        return self._elem_types[value]

    def _elem_type(self, start: Value) -> int | None:
        value: Value | None = start
        for _ in range(MAX_STEPS):
            entry = self.qdq.maker(value)
            if value is None or entry is None:
                break
            given = entry.quantized_type if entry.is_quantize else entry.output_dtype
            if entry.is_quantize or given is not None:
                return given
            value = entry.scale  # whose own maker may be a DQ again
        if value is None:
            return None
        stored = self.constants.direct(value)
        return stored.data_type if stored is not None else self.types.elem_type(value)

    def output_type(self, dequantize: QdqNode) -> int | None:
        """The type that a DQ makes: ``output_dtype``, else that of its scale."""
        return dequantize.output_dtype or self.elem_type(dequantize.scale)

    def shape(self, value: Value | None) -> Shape | None:
        """The shape of a tensor, or None where not even its rank is known."""
        if value is None:
            return None
        if value not in self._shapes:
            stored = self.constants.direct(value)
            self._shapes[value] = tuple(stored.dims) if stored is not None else self.types.shape(value)
        return self._shapes[value]

    def data_shape(self, entry: QdqNode) -> Shape | None:
        """The shape of what a Q or DQ reads, told by its output where its input has none."""
        known = self.shape(entry.data)
        return known if known is not None else self.shape(entry.output)

    def axis(self, entry: QdqNode) -> int | None:
        """The axis in force, counted from the front; None where the rank is unknown or the axis out of range."""
        shape = self.data_shape(entry)
        if shape is None or not -len(shape) <= entry.axis < len(shape):
            return None
        return entry.axis % len(shape)

    def is_constant(self, value: Value) -> bool:
        """Whether a tensor is constant; a formal input of a local function is when every call passes a constant."""
        if value.is_input and value.scope.is_function:
            calls = self._calls[function_id(value.scope)]
            arguments = [call.input(value.scope.input_names().index(value.name)) for call in calls]
            # a call chain that comes back to itself is reported as recursion, not followed
            return all(
                argument is None or (not argument.is_input and self.constants.is_constant(argument))
                for argument in arguments
            )
        return self.constants.is_constant(value)

    @cached_property
    def _calls(self) -> dict[tuple[str, str, str], list[NodeView]]:
        found: dict[tuple[str, str, str], list[NodeView]] = defaultdict(list)
        for node in self.nodes:
            found[node.proto.domain, node.op_type, node.proto.overload].append(node)
        return found

    @cached_property
    def functions(self) -> dict[tuple[str, str, str], Scope]:
        """The scopes of the local functions by domain, name and overload."""
        return {function_id(scope): scope for scope in self.view.scopes if scope.is_function}


def _bounds(array: Array) -> Bounds:
    if array.size == 1 and array.dtype == np.float32:
        only = float(array.item())  # most scales: NumPy's reductions take ten times as long
        return Bounds(only, only)
    reals = as_reals(array)
    return Bounds(float(reals.min()), float(reals.max())) if reals.size else NO_BOUNDS


def as_reals(array: Array) -> npt.NDArray[np.float64]:
    """``array`` as float64; damaged constants may hold NaN of a kind that warns when it is converted."""
    with np.errstate(all="ignore"):
        return array.astype(np.float64)


def function_id(scope: Scope) -> tuple[str, str, str]:
    """Domain, name and overload of the local function whose scope it is."""
    assert isinstance(scope.container, onnx.FunctionProto)
    return scope.container.domain, scope.container.name, scope.container.overload
