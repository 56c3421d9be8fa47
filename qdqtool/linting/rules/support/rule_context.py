"""The data of one model that all rules share: indexes and constants, which are made and read only once.

The result of a check depends only on the context and on the target fields that the check reads. Targets with equal
values in these fields get the same faults. Most rules read no field, so they run once for any number of targets.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, Generic, TypeVar, cast

import numpy as np
import numpy.typing as npt
import onnx

from qdqtool.errors import ModelError
from qdqtool.linting.parser_answer import ParserFault
from qdqtool.linting.rules.support.reach import Product, Walk, operand, reachable
from qdqtool.models import ops
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.qdq import QdqNode, is_qdq, same_constant
from qdqtool.models.graph.index.signature import Signature, signature_of
from qdqtool.models.graph.index.view import NodeView, Scope, Value
from qdqtool.models.graph.io.load import check_text
from qdqtool.models.graph.model import Model
from qdqtool.models.graph.scope import ScopePath
from qdqtool.models.ops import ProductOp
from qdqtool.models.plugins import OperatorId, PluginOperator, plugin_operators, stand_in_paths
from qdqtool.models.targets import Target
from qdqtool.numerics.granularity import PerTensor

Found = TypeVar("Found")


class Memo(Generic[Found]):
    """The results of one check, for the targets for which it ran."""

    def __init__(self) -> None:
        self._results: list[tuple[dict[str, object], tuple[Found, ...]]] = []

    def recall(self, target: Target, check: Callable[[Target], Iterator[Found]]) -> tuple[Found, ...]:
        """Return the results of ``check`` for ``target``; run it only if no earlier run read the same values."""
        for seen, found in self._results:
            if all(getattr(target, name) == value for name, value in seen.items()):
                return found
        watched = _Watched(target)
        found = tuple(check(cast("Target", watched)))
        self._results.append((watched.seen, found))
        return found


class _Watched:
    """A stand-in for a target that records which of its fields are read."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self.seen: dict[str, object] = {}

    def __getattr__(self, name: str) -> object:
        value: object = getattr(self._target, name)
        self.seen[name] = value
        # Stored as an attribute, so that the next read does not call this method.
        setattr(self, name, value)
        return value


Array = npt.NDArray[np.generic]
Shape = tuple[int | str | None, ...]


@dataclass(frozen=True, slots=True)
class Bounds:
    """The least and greatest value of a constant; NaN if one of its values is NaN."""

    low: float
    high: float


MAX_STEPS = 64
"""Largest number of consecutive operators that a rule follows: a hostile file may have a cycle."""

NO_BOUNDS = Bounds(1.0, 1.0)
"""Bounds for empty constants; another rule reports these."""

NUMBERS = frozenset("fiuVb")
"""The NumPy kinds of number types; ``V`` is the kind of ml_dtypes types."""


class RuleContext:
    """Everything that rules need to know about one model.

    Raises:
        ModelError: The model has names that are not UTF-8.

    Attributes:
        model: The model.
        index: The index of the model. The following parts of it are also attributes here.
        view: Scopes, nodes and tensors.
        constants: Folded constants.
        types: Element types and shapes.
        qdq: Q/DQ nodes.
        nodes: Every node of every scope.
        parser_faults: The faults that TensorRT's parser found; empty until the job that ran the parser sets it.
        unreadable: The reason for each constant that :meth:`array` could not read.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.parser_faults: tuple[ParserFault, ...] = ()
        # For models from a file, load_model has checked the text.
        if model.path is None:
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
        """Return the results of a rule for this model."""
        return self._memos[code]

    @cached_property
    def operators(self) -> tuple[tuple[NodeView, Signature], ...]:
        """The nodes of the default domain, with the signature of each operator at the opset of the node.

        Q and DQ, which other rules check, and operators that the opset does not have are left out.
        """
        known = (
            (node, signature_of(node.op_type, node.scope.opset))
            for node in self.nodes
            if not node.domain and not is_qdq(node)
        )
        return tuple((node, signature) for node, signature in known if signature is not None)

    @cached_property
    def products(self) -> tuple[Product, ...]:
        """Every node that multiplies an activation with weights or with another activation."""
        return tuple(self._product(node, op) for node in self.nodes if (op := ops.product(node)) is not None)

    def per_tensor_weights(self) -> int:
        """Return the number of products whose quantized weight has one scale."""
        weights = (each.right.dequantize for each in self.products if each.right is not None)
        return sum(self.qdq.is_weight(entry) and entry.granularity == PerTensor() for entry in weights)

    @cached_property
    def readers_of_codes(self) -> Mapping[QdqNode, list[tuple[Product, int]]]:
        """For each DQ, the products that read its codes, with the index of the operand."""
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
        """Return the folded constant of a scale or zero point; None if it is computed, not numeric or unreadable."""
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
        """Return the constant that every call passes for an input of a local function; otherwise ``value`` itself."""
        # `seen` ends the loop if functions call each other in a cycle; another rule reports that.
        seen = set[Value]()
        while value not in seen:
            seen.add(value)
            first, *others = self._arguments(value) or [None]
            if first is None or not all(same_constant(first, other, self.constants) for other in others):
                return value
            value = first
        return value

    def _arguments(self, value: Value) -> list[Value | None]:
        """Return the tensor that each call passes for an input of a local function; empty for other tensors."""
        if not (value.is_input and value.scope.is_function):
            return []
        index = value.scope.input_names().index(value.name)
        return [call.input(index) for call in self._calls[function_id(value.scope)]]

    def bounds(self, value: Value, array: Array) -> Bounds:
        """Return the bounds of ``array``, the constant that ``value`` folds to."""
        if value not in self._bounds:
            self._bounds[value] = _bounds(array)
        return self._bounds[value]

    def elem_type(self, value: Value | None) -> int | None:
        """Return the ``TensorProto.DataType`` of a tensor, or None if it is unknown."""
        if value is None:
            return None
        if value not in self._elem_types:
            self._elem_types[value] = self._elem_type(value)
        return self._elem_types[value]

    def _elem_type(self, start: Value) -> int | None:
        value, seen = start, set[Value]()
        while (entry := self.qdq.maker(value)) is not None:
            if entry.is_quantize:
                return entry.quantized_type
            seen.add(value)
            if entry.output_dtype is not None or entry.scale is None or entry.scale in seen:
                return entry.output_dtype
            # A DQ returns the type of its scale. Another DQ may make this scale, as in NVFP4.
            value = entry.scale
        stored = self.constants.direct(value)
        return stored.data_type if stored is not None else self.types.elem_type(value)

    def output_type(self, dequantize: QdqNode) -> int | None:
        """Return the output type of a DQ: ``output_dtype``, otherwise the type of its scale."""
        return dequantize.output_dtype or self.elem_type(dequantize.scale)

    def shape(self, value: Value | None) -> Shape | None:
        """Return the shape of a tensor, or None if its rank is unknown."""
        if value is None:
            return None
        if value not in self._shapes:
            stored = self.constants.direct(value)
            self._shapes[value] = tuple(stored.dims) if stored is not None else self.types.shape(value)
        return self._shapes[value]

    def data_shape(self, entry: QdqNode) -> Shape | None:
        """Return the data shape of a Q or DQ: the shape of its input or, if this is unknown, of its output."""
        known = self.shape(entry.data)
        return known if known is not None else self.shape(entry.output)

    def axis(self, entry: QdqNode) -> int | None:
        """Return the axis as a nonnegative number; None if the rank is unknown or the axis is out of range."""
        shape = self.data_shape(entry)
        if shape is None or not -len(shape) <= entry.axis < len(shape):
            return None
        return entry.axis % len(shape)

    def is_constant(self, value: Value) -> bool:
        """Return whether a tensor is constant. A function input is constant if every call passes a constant."""
        given = reachable([value], self._arguments)
        return all((each.is_input and each.scope.is_function) or self.constants.is_constant(each) for each in given)

    @cached_property
    def _calls(self) -> dict[tuple[str, str, str], list[NodeView]]:
        found: dict[tuple[str, str, str], list[NodeView]] = defaultdict(list)
        for node in self.nodes:
            found[node.proto.domain, node.op_type, node.proto.overload].append(node)
        return found

    @cached_property
    def functions(self) -> dict[tuple[str, str, str], Scope]:
        """The scopes of the local functions, by domain, name and overload."""
        return {function_id(scope): scope for scope in self.view.scopes if scope.is_function}

    @cached_property
    def plugins(self) -> Mapping[OperatorId, PluginOperator]:
        """The operators that are declared as plugins."""
        return plugin_operators(self.model.proto)

    @cached_property
    def _stand_ins(self) -> frozenset[ScopePath]:
        return stand_in_paths(self.model.proto)

    def is_plugin(self, node: NodeView) -> bool:
        """Return whether a node is declared as a plugin."""
        return bool(self.plugins) and (node.domain, node.op_type) in self.plugins

    def is_replaced(self, node: NodeView | None) -> bool:
        """Return whether TensorRT runs a plugin in place of the local function of a node."""
        return node is not None and node.scope.path[:1] in self._stand_ins

    def called(self, node: NodeView) -> Scope | None:
        """Return the scope of the local function that a node calls; None for an operator."""
        return self.functions.get((node.proto.domain, node.op_type, node.proto.overload))


def _bounds(array: Array) -> Bounds:
    if array.size == 1 and array.dtype == np.float32:
        # Most scales are a single float32. NumPy's min() and max() take 40 times as long as item().
        only = float(array.item())
        return Bounds(only, only)
    reals = as_reals(array)
    return Bounds(float(reals.min()), float(reals.max())) if reals.size else NO_BOUNDS


def as_reals(array: Array) -> npt.NDArray[np.float64]:
    """Return ``array`` as float64."""
    # Damaged constants may have signaling NaNs; NumPy warns of an invalid value when it converts them.
    with np.errstate(all="ignore"):
        return array.astype(np.float64)


def function_id(scope: Scope) -> tuple[str, str, str]:
    """Return the domain, name and overload of the local function of a scope."""
    assert isinstance(scope.container, onnx.FunctionProto)
    return scope.container.domain, scope.container.name, scope.container.overload
