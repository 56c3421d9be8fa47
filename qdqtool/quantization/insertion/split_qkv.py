"""Split one quantized product for queries, keys and values into three, and join their results with a Concat.

TensorRT moves the Split after such a product to its weight, and has no quantized kernel for the resulting products:
they run in float. Three products joined by a Concat compute the same numbers, with the same codes and scales. TensorRT
fuses them into one quantized kernel again, and leaves the Split in place. A Q/DQ pair before the Split would help as
well, but then queries, keys and values would share one scale.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import onnx

from qdqtool.models import ops, targets
from qdqtool.models.graph.edits.edit import AddInitializer, AddNode, Edit, RenameOutput, SetInput
from qdqtool.models.graph.edits.naming import Namer
from qdqtool.models.graph.edits.surgeon import apply_edits
from qdqtool.models.graph.edits.unused import DeadCode
from qdqtool.models.graph.index.constants import Constants
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.qdq import is_dequantized, is_qdq
from qdqtool.models.graph.index.view import GraphView, NodeView, Value
from qdqtool.models.graph.io.offload import offloaded
from qdqtool.models.graph.io.tensors import computed_tensor
from qdqtool.models.graph.model import Model, Transformed
from qdqtool.models.ops import ProductOp

PARTS = 3
MAX_TENSORS = 128
"""Largest number of tensors to follow after one product; rotary positions and a cache need a fifth of it."""
_CARRYING_OPS = ("Add", "Cast", "Concat", "DequantizeLinear", "Div", "Mul", "Neg", "QuantizeLinear", "Sub")
"""Operators between the projections and the products of an attention, besides operators that only move values."""
WEIGHT, BIAS = 1, 2
PART = "_part"
"""Suffix of the names of parts."""
OPSET_OF_JOINING = 11
"""The first opset in which a Concat counts axes from the end."""


def separate_projections(quantized: Model, target: str) -> Transformed[tuple[str, ...]]:
    """Split every quantized product for queries, keys and values into three.

    Returns:
        The model, with the labels of the products that were split. The first part keeps the name of the product.
    """
    if targets.get(target).family != "tensorrt" or not any(_quantized_sites(ModelIndex.of(quantized))):
        return Transformed(quantized, ())
    # Offloaded to disk, so that codes are computed once and not for each part.
    separated = _cut(offloaded(quantized), _quantized_sites)
    return separated if separated.report else Transformed(quantized, ())


def separate_like(quantized: Model, baseline: Model) -> Transformed[tuple[str, ...]]:
    """Split the products of a float model that are split in ``quantized``, to compare weights part by part.

    Returns:
        The float model, with the labels of the products that were split.
    """
    split = {(node.scope.path, node.key) for node in GraphView(quantized).nodes() if _joins_parts(node)}

    def find(index: ModelIndex) -> Iterator["_QkvSite"]:
        return (site for site in _sites(index) if (site.product.scope.path, site.product.key) in split)

    return _cut(baseline, find) if split else Transformed(baseline, ())


def _joins_parts(node: NodeView) -> bool:
    if not node.is_op("Concat") or len(node.proto.input) != PARTS:
        return False
    made = [value.producer for index in range(PARTS) if (value := node.input(index)) is not None]
    names = all(name.startswith(f"{node.key[0]}{PART}") for name in node.proto.input)
    return names and all(maker is not None and _matrix_product(maker) is not None for maker in made)


def _cut(model: Model, find: Callable[[ModelIndex], Iterator["_QkvSite"]]) -> Transformed[tuple[str, ...]]:
    index = ModelIndex.of(model.fork())
    surgery = _Surgery(index)
    done = tuple(site.product.label for site in find(index) if surgery.cut(site))
    return Transformed(apply_edits(index.model, surgery.edits + surgery.dead.edits()) if done else model, done)


def _quantized_sites(index: ModelIndex) -> Iterator["_QkvSite"]:
    for site in _sites(index):
        operands = site.product.input(0), site.product.input(WEIGHT)
        if all(map(_comes_dequantized, operands)) and is_fused_qkv(site.product, index.constants):
            yield site


def _sites(index: ModelIndex) -> Iterator["_QkvSite"]:
    """Yield the products whose stored weights can be divided into equal parts along their output channels."""
    for node in index.view.nodes():
        product = _matrix_product(node) if not node.scope.in_function else None
        axis = product.weight_axis(node, 2) if product is not None else None
        if axis is not None and node.scope.opset >= OPSET_OF_JOINING:
            width = _width(node.input(WEIGHT), axis, index.constants)
            if width and width % PARTS == 0:
                yield _QkvSite(node, axis, width)


def _matrix_product(node: NodeView) -> ProductOp | None:
    found = ops.product(node)
    return found if found is not None and found.is_matrix_product else None


def _comes_dequantized(value: Value | None) -> bool:
    """Return whether a tensor comes from a DQ, directly or through a Transpose."""
    while value is not None and value.producer is not None and ops.traits(value.producer).reorders_axes:
        value = value.producer.input(0)
    return is_dequantized(value)


def _width(value: Value | None, axis: int, constants: Constants) -> int:
    """Return the extent along ``axis`` of a stored matrix, quantized or not; 0 for any other tensor."""
    while value is not None:
        stored = constants.direct(value)
        if stored is not None:
            return stored.dims[axis] if len(stored.dims) == 2 else 0
        node = value.producer
        if node is None or not (is_qdq(node) or ops.traits(node).reorders_axes) or node.attribute("block_size", 0):
            return 0
        # Any other permutation does not belong to a matrix.
        if sorted(node.attribute("perm", (1, 0))) != [0, 1]:
            return 0
        axis, value = _axis_in_front(node, axis), node.input(0)
    return 0


def _axis_in_front(node: NodeView, axis: int) -> int:
    """Return the input axis of ``node`` that becomes ``axis`` of its output, which is a matrix."""
    found = ops.source_axis(node, axis, 2)
    # A Q or DQ keeps the axes.
    return axis if found is None else found


@dataclass(frozen=True, slots=True)
class _QkvSite:
    """A product, the axis of the output channels of its weight, and their number."""

    product: NodeView
    axis: int
    width: int

    def bounds(self, part: int) -> slice:
        length = self.width // PARTS
        return slice(part * length, (part + 1) * length)


@dataclass(slots=True)
class _Surgery:
    """Builds the edits, one product after the other."""

    index: ModelIndex
    edits: list[Edit] = field(default_factory=list)
    dead: DeadCode = field(init=False)
    _namer: Namer = field(init=False)

    def __post_init__(self) -> None:
        self.dead = DeadCode(self.index.view)
        self._namer = Namer(self.index.view)

    def cut(self, site: _QkvSite) -> bool:
        """Add the edits for one product; return False, without edits, if its bias cannot be divided."""
        product, whole = site.product, site.product.output()
        cut_inputs = {WEIGHT: site.axis}
        bias = product.input(BIAS)
        if bias is not None:
            stored = self.index.constants.direct(bias)
            if stored is None:
                return False
            if stored.dims and stored.dims[-1] == site.width:
                cut_inputs[BIAS] = len(stored.dims) - 1
        assert whole is not None
        names = [self._part(site, cut_inputs, part) for part in range(PARTS)]
        scope = product.scope.path
        node = self._namer.node(f"{product.label}_Concat")
        self.edits.append(AddNode(scope, "Concat", tuple(names), (whole.name,), node, attributes={"axis": -1}))
        for index in cut_inputs:
            self.dead.drop_use(product, index)
        return True

    def _part(self, site: _QkvSite, cut_inputs: dict[int, int], part: int) -> str:
        """Add the edits of one part, which is the product itself or a copy; return the name of its output."""
        product, scope = site.product, site.product.scope.path
        inputs = list(product.proto.input)
        for index, axis in cut_inputs.items():
            value = product.input(index)
            assert value is not None
            inputs[index] = self._piece(value, axis, site.bounds(part))
        output = self._namer.tensor(f"{product.key[0]}{PART}")
        if part == 0:
            self.edits.append(RenameOutput(scope, product.key, 0, output))
            self.edits.extend(SetInput(scope, product.key, index, inputs[index]) for index in cut_inputs)
        else:
            self.edits.append(self._copy(product, tuple(inputs), output, f"{product.label}{PART}"))
        return output

    def _piece(self, value: Value, axis: int, bounds: slice) -> str:
        """Add a part of a stored constant along ``axis``, with copies of the nodes that read it; return its name."""
        stored = self.index.constants.direct(value)
        name = self._namer.tensor(f"{value.name}{PART}")
        if stored is not None:
            self.edits.append(
                AddInitializer(value.scope.path, _stored_piece(self.index.model, stored, name, axis, bounds))
            )
            return name
        node = value.producer
        assert node is not None
        inputs = [
            self._input_piece(node, index, _axis_in_front(node, axis), bounds) for index in range(len(node.proto.input))
        ]
        self.edits.append(self._copy(node, tuple(inputs), name, f"{node.label}{PART}"))
        return name

    def _input_piece(self, node: NodeView, index: int, axis: int, bounds: slice) -> str:
        """Return an input for the copy of ``node``: a part of the tensor, or all of it if ``axis`` does not cut it."""
        value = node.input(index)
        if value is None:
            return node.input_name(index)
        if index and not self._lies_along(node, value, axis):
            self.dead.keep(value)
            return node.input_name(index)
        return self._piece(value, axis if index == 0 else 0, bounds)

    def _lies_along(self, node: NodeView, value: Value, axis: int) -> bool:
        stored = self.index.constants.direct(value)
        return stored is not None and list(stored.dims) not in ([], [1]) and node.attribute("axis", 1) % 2 == axis

    def _copy(self, node: NodeView, inputs: tuple[str, ...], output: str, name: str) -> AddNode:
        attributes = {each.name: onnx.helper.get_attribute_value(each) for each in node.proto.attribute}
        return AddNode(node.scope.path, node.op_type, inputs, (output,), self._namer.node(name), attributes=attributes)


def _stored_piece(model: Model, stored: onnx.TensorProto, name: str, axis: int, bounds: slice) -> onnx.TensorProto:
    """Return a part of a stored tensor; it is computed when the model is saved."""
    dims = list(stored.dims)
    dims[axis] = bounds.stop - bounds.start
    where = (slice(None),) * axis + (bounds,)
    return computed_tensor(model, stored, name, lambda whole: np.ascontiguousarray(whole[where]), dims)


def is_fused_qkv(product: NodeView, constants: Constants) -> bool:
    """Return whether ``product`` computes queries, keys and values together.

    This is the case if parts of its result reach both operands of a later product (queries and keys) and one operand of
    another product (values). There must be three parts of the same size: TensorRT rewrites no other split.
    """
    tensors, products = _behind(product.output())
    operands = [len(indices) for indices in products.values()]
    return max(operands, default=0) == 2 and len(operands) > 1 and any(_cuts(v, constants) for v in tensors)


def _behind(value: Value | None) -> tuple[dict[Value, None], dict[NodeView, set[int]]]:
    """Return the tensors computed from a tensor, and the next products that read them, with the input indices."""
    tensors: dict[Value, None] = {}
    products: dict[NodeView, set[int]] = {}
    waiting = [value] if value is not None else []
    while waiting and len(tensors) < MAX_TENSORS:
        value = waiting.pop()
        if value in tensors:
            continue
        tensors[value] = None
        for use in value.uses:
            product = ops.product(use.node)
            # Products of an attention multiply two activations of any rank, because they have an axis of heads.
            if product is not None and product.two_activations and product.activation_rank is None:
                products.setdefault(use.node, set()).add(use.index)
            elif use.node.is_op(*_CARRYING_OPS) or ops.moves_values(use.node):
                waiting += use.node.present_outputs
    return tensors, products


def _cuts(value: Value, constants: Constants) -> bool:
    """Return whether a tensor is divided into three: by a Split, or by one Slice or Gather for each part."""
    readers = [use.node for use in value.uses if use.index == 0]
    if sum(node.is_op("Gather", "Slice") for node in readers) == PARTS:
        return True
    return any(node.is_op("Split") and _is_even(node, constants) for node in readers)


def _is_even(split: NodeView, constants: Constants) -> bool:
    if len(split.proto.output) != PARTS:
        return False
    sizes, given = split.attribute("split"), split.input(1)
    if given is not None:
        array = constants.array(given)
        sizes = array.tolist() if array is not None else ()
    return sizes is None or len(set(sizes)) == 1
