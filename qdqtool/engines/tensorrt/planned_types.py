"""Find the type that the Q/DQ nodes of a model plan for each weighted node."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from qdqtool.engines.report import NodePrecision
from qdqtool.engines.tensorrt.kernels import UNKNOWN, is_quantized
from qdqtool.models import ops
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.graph.index.tensorrt_operators import BLOCK_DEQUANTIZE, MX_DEQUANTIZE
from qdqtool.models.graph.index.view import NodeView, Value
from qdqtool.models.graph.io.metadata import HIGH_PRECISION_KEY, read_metadata
from qdqtool.models.graph.io.tensors import iter_tensors, nbytes
from qdqtool.models.graph.model import Model
from qdqtool.models.ops import ProductOp
from qdqtool.models.ops.support.weights import estimated_macs
from qdqtool.models.report import Work
from qdqtool.models.targets import type_name
from qdqtool.numerics.granularity import PerAxis, PerTensor, normalize_axis

# Largest number of operators between a DQ and its consumer. The limit also ends the walk in a cyclic graph.
_MAX_STEPS = 16
WEIGHT_ONLY = "-weight-only"


@dataclass(frozen=True, slots=True, eq=False)
class PlannedOperand:
    """One data input of a weighted node.

    Attributes:
        dequantize: The DQ that makes it, possibly followed by operators that only move values; None for a float
            operand.
        cast: Whether there is a Cast between the DQ and the node.
        custom: The quantized type, if one of TensorRT's own operators dequantizes the input; else None.
        is_weight: Whether the input is a constant.
        rank: Rank of the tensor; None if it is unknown.
    """

    dequantize: QdqNode | None
    cast: bool
    is_weight: bool
    rank: int | None
    custom: str | None = None

    @property
    def format(self) -> str | None:
        """The quantized type; None for a float operand."""
        if self.custom is not None:
            return self.custom
        kind = self.dequantize.quantized_type if self.dequantize is not None else None
        return type_name(kind) if kind is not None else None


@dataclass(frozen=True, slots=True, eq=False)
class PlannedNode:
    """A weighted node with at least one quantized operand.

    Attributes:
        node: The node.
        op: The entry of its operator in :mod:`qdqtool.models.ops`.
        operands: Its data inputs, in order.
    """

    node: NodeView
    op: ProductOp
    operands: tuple[PlannedOperand, ...]

    @property
    def formats(self) -> list[str]:
        """The quantized types of its quantized operands."""
        return [operand.format for operand in self.operands if operand.format is not None]

    @property
    def weight_only(self) -> bool:
        """Whether only a constant operand is quantized."""
        quantized = [operand for operand in self.operands if operand.format is not None]
        return len(quantized) < len(self.operands) and all(operand.is_weight for operand in quantized)

    @property
    def one_sided(self) -> bool:
        """Whether an activation is quantized and the other operand is not."""
        return len(self.formats) < len(self.operands) and not self.weight_only

    @property
    def planned(self) -> str:
        """The type that the Q/DQ nodes ask for, such as ``int8``, ``int8 x int4``, ``int4-weight-only``."""
        kinds = " x ".join(dict.fromkeys(self.formats))
        return kinds + WEIGHT_ONLY if self.weight_only else kinds

    @property
    def wrong_axis(self) -> int | None:
        """The axis of the scales of a per-axis weight if it is not the axis of output channels; None otherwise."""
        for operand in self.operands:
            granularity = operand.dequantize.granularity if operand.dequantize is not None else None
            if not operand.is_weight or operand.rank is None or not isinstance(granularity, PerAxis):
                continue
            expected = self.op.weight_axis(self.node, operand.rank)
            inside = -operand.rank <= granularity.axis < operand.rank
            axis = normalize_axis(granularity.axis, operand.rank) if inside else granularity.axis
            if expected is not None and axis != expected:
                return axis
        return None

    @property
    def per_axis_activation(self) -> bool:
        """Whether an activation has more than one scale."""
        return any(
            not operand.is_weight
            and operand.dequantize is not None
            and not isinstance(operand.dequantize.granularity, PerTensor | None)
            for operand in self.operands
        )

    @property
    def cast(self) -> bool:
        """Whether there is a Cast between a DQ and the node."""
        return any(operand.cast for operand in self.operands)


def planned_nodes(model: Model) -> list[PlannedNode]:
    """Return every weighted node with a quantized operand, in all scopes."""
    return list(_TypePlanner(ModelIndex.of(model)).nodes())


def work_of(source: Model | ModelIndex, built: Iterable[NodePrecision] = ()) -> Work:
    """Return the work of a model by type. An open dimension counts as 1, and the body of a loop once.

    A node of which only the activation is quantized counts in its float type.

    Args:
        source: The model or its index.
        built: The quantized nodes in its engine; those that fall back to float32 are in ``float32`` too.
    """
    fallen = {each.name for each in built if each.actual == "float32"}
    index = source if isinstance(source, ModelIndex) else ModelIndex.of(source)
    planned = {entry.node: entry for entry in _TypePlanner(index).nodes() if not entry.one_sided}
    by_type, float32, stored = Counter[str](), Counter[str](), Counter[str]()
    for node in index.view.nodes():
        output = node.output()
        if (ops.product(node) is None and not ops.traits(node).multiplies_inside) or output is None:
            continue
        if index.is_constant(output):  # the builder folds it
            continue
        entry, macs, elem_type = planned.get(node), estimated_macs(node, index), index.elem_type(output)
        kind = type_name(elem_type) if elem_type is not None else UNKNOWN
        by_type[entry.planned if entry is not None else kind] += macs
        if kind == "float32" and (entry is None or entry.weight_only or node.label in fallen):
            float32[node.label] += macs
    for tensor in iter_tensors(index.model.proto):
        stored[type_name(tensor.data_type)] += nbytes(tensor)
    return Work(
        by_type=dict(by_type.most_common()),
        weight_bytes=dict(stored.most_common()),
        float32=dict(float32.most_common()),
        converted_to=read_metadata(index.model, HIGH_PRECISION_KEY),
    )


def quantized_share(work: Work) -> float | None:
    """Return the share of the multiply-accumulates in nodes that read codes; None for a model without products."""
    quantized = sum(macs for kind, macs in work.by_type.items() if is_quantized(kind))
    return work.share(quantized) if work.by_type else None


def quantized_types(model: Model) -> frozenset[str]:
    """Return the quantized types of the Q/DQ nodes of a model and of TensorRT's own operators in it."""
    index = ModelIndex.of(model)
    kinds = {type_name(entry.quantized_type) for entry in index.qdq.nodes if entry.quantized_type is not None}
    # The names of TensorRT's custom operators contain the type; the parser ignores their domain.
    marks = {"TRT_FP8": "float8e4m3fn", "TRT_MXFP8": "float8e4m3fn", "TRT_FP4": "float4e2m1", "TRT_INT4": "int4"}
    custom = {kind for node in index.view.nodes() for mark, kind in marks.items() if node.op_type.startswith(mark)}
    return frozenset(kinds | custom)


class _TypePlanner:
    def __init__(self, index: ModelIndex) -> None:
        self._index = index

    def nodes(self) -> Iterator[PlannedNode]:
        for node in self._index.view.nodes():
            op = ops.product(node)
            if op is None:
                continue
            operands = tuple(self._operand(node.input(position)) for position in op.quantized_inputs(node))
            if any(operand.format is not None for operand in operands):
                yield PlannedNode(node, op, operands)

    def _operand(self, value: Value | None) -> PlannedOperand:
        cast, moved, source = False, False, value
        for _ in range(_MAX_STEPS):
            found = self._index.qdq.dequantizer_of(source)
            if found is not None:
                # A Transpose or Reshape in between changes the meaning of the axis of the scale, so the axis is not
                # judged.
                rank = None if moved else self._rank(value)
                return PlannedOperand(found, cast, self._index.qdq.is_weight(found), rank)
            node = source.producer if source is not None else None
            if node is not None and node.op_type in {MX_DEQUANTIZE, BLOCK_DEQUANTIZE}:
                return self._custom(node, cast=cast)
            if node is None or not (node.is_op("Cast") or ops.moves_values(node)):
                break
            cast = cast or node.is_op("Cast")
            moved = moved or not ops.traits(node).passes_values
            source = node.input(0)
        is_weight = value is not None and self._index.constants.is_constant(value)
        return PlannedOperand(None, cast=False, is_weight=is_weight, rank=None)

    def _custom(self, node: NodeView, *, cast: bool) -> PlannedOperand:
        """Return an operand that one of TensorRT's own operators dequantizes; the axis of its scales is not judged."""
        codes = node.input(0)
        kind = self._index.elem_type(codes) if codes is not None else None
        is_weight = codes is not None and self._index.constants.is_constant(codes)
        return PlannedOperand(None, cast, is_weight, None, custom=type_name(kind) if kind is not None else None)

    def _rank(self, value: Value | None) -> int | None:
        shape = self._index.types.shape(value) if value is not None else None
        return len(shape) if shape is not None else None
