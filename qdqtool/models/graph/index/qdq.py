"""The QuantizeLinear and DequantizeLinear nodes of a model, read once as ONNX means them.

All code that reads Q/DQ nodes (validate, inspect, strip, check, build) uses :class:`QdqIndex`, so that it agrees on
the quantized type, the axis, the granularity and on which Q belongs to which DQ. Nothing is judged here: a fact that
a malformed node does not tell is None, and the rules report it.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from onnx import TensorProto

from qdqtool.models.graph.index.constants import Constants
from qdqtool.models.graph.index.tensorrt_operators import BLOCK_DEQUANTIZE, LINEAR, MAKES_SCALES, MX_DEQUANTIZE
from qdqtool.models.graph.index.types import Shape, TensorTypes, static_shape
from qdqtool.models.graph.index.view import GraphView, NodeView, Use, Value
from qdqtool.numerics.granularity import Granularity, as_onnx_reads

QUANTIZE = "QuantizeLinear"
DEQUANTIZE = "DequantizeLinear"
MICROSOFT, TENSORRT = "com.microsoft", "trt"
DOMAINS = frozenset({"", MICROSOFT, TENSORRT})
"""Domains whose Q and DQ mean the same. TensorRT's parser matches operator names only and takes all as ONNX's; Model
Optimizer writes ``trt``."""

FIRST_OPSET_WITH_AXIS = 13


@dataclass(frozen=True, slots=True, eq=False)
class QdqNode:
    """One QuantizeLinear or DequantizeLinear.

    Attributes:
        node: The node. Its domain is one of :data:`DOMAINS`, or it is one of TensorRT's that mean the same
            (:data:`qdqtool.models.graph.index.tensorrt_operators.LINEAR`).
        is_quantize: True for QuantizeLinear, False for DequantizeLinear.
        data: Input 0; None where it is absent or undefined, as for the next two.
        scale: Input 1.
        zero_point: Input 2.
        quantized_type: ``TensorProto.DataType`` of the quantized side. For a Q: the zero point's type, else
            ``output_dtype``, else uint8 (the ONNX default) or the type that TensorRT's operator has in its name. For a
            DQ: the type of its data. None where it is unknown.
        axis: The axis in force, as written; default 1 (0 below opset 13, which has no attribute of that name).
        axis_given: Whether the attribute is there.
        block_size: The attribute; 0 where it is absent.
        scale_shape: Shape of the scale, or None where it is unknown.
        data_rank: Rank of the data, or None where it is unknown.
    """

    node: NodeView
    is_quantize: bool
    data: Value | None
    scale: Value | None
    zero_point: Value | None
    quantized_type: int | None
    axis: int
    axis_given: bool
    block_size: int
    scale_shape: Shape | None
    data_rank: int | None

    @property
    def output(self) -> Value | None:
        """What the node makes."""
        return self.node.output()

    @property
    def standard_name(self) -> str:
        """What ONNX calls the operator."""
        return QUANTIZE if self.is_quantize else DEQUANTIZE

    @property
    def is_standard(self) -> bool:
        """Whether it is an operator of ONNX, and not of ONNX Runtime or TensorRT."""
        return not self.node.domain and self.node.op_type in {QUANTIZE, DEQUANTIZE}

    @property
    def is_of_tensorrt(self) -> bool:
        """Whether only TensorRT knows the operator."""
        return self.node.domain == TENSORRT or self.node.op_type in LINEAR

    @property
    def is_dynamic(self) -> bool:
        """Whether it is a DQ of codes and scales that an operator of TensorRT computes from the data."""
        maker = self.data.producer if self.data is not None else None
        return maker is not None and maker.op_type in MAKES_SCALES

    @property
    def output_dtype(self) -> int | None:
        """The attribute of that name; None where it is absent or 0, which means absent."""
        return integer_attribute(self.node, "output_dtype") or None

    @property
    def granularity(self) -> Granularity | None:
        """How ONNX reads the scale (:func:`as_onnx_reads`); None where it does not, or the extent is unknown."""
        shape = self.scale_shape
        if shape is None or (len(shape) == 1 and not isinstance(shape[0], int)):
            return None
        return as_onnx_reads(shape, self.data_rank, self.axis, self.block_size)

    @property
    def uses(self) -> list[Use]:
        """Every use of the output, in its own scope and the bodies below it."""
        return self.output.uses if self.output is not None else []


@dataclass(frozen=True, slots=True, eq=False)
class QdqPair:
    """A Q and one DQ that reads it. A Q with three readers makes three pairs."""

    quantize: QdqNode
    dequantize: QdqNode


class QdqIndex:
    """All Q and DQ nodes of a model, in every scope.

    Attributes:
        nodes: Every Q and DQ, in the order of the walk.
        pairs: Every Q with each DQ that reads it.
    """

    def __init__(self, view: GraphView, types: TensorTypes, constants: Constants) -> None:
        self._types = types
        self._constants = constants
        self._by_node: dict[NodeView, QdqNode] = {}
        for node in view.nodes():
            if is_qdq(node):
                self._by_node[node] = self._read(node)
        self.nodes: tuple[QdqNode, ...] = tuple(self._by_node.values())
        self.pairs: tuple[QdqPair, ...] = tuple(
            QdqPair(quantize, reader) for quantize in self.quantizers() for reader in self.readers(quantize)
        )

    def quantizers(self) -> Iterator[QdqNode]:
        """Every QuantizeLinear."""
        return (entry for entry in self.nodes if entry.is_quantize)

    def dequantizers(self) -> Iterator[QdqNode]:
        """Every DequantizeLinear."""
        return (entry for entry in self.nodes if not entry.is_quantize)

    def get(self, node: NodeView | None) -> QdqNode | None:
        """Return the entry of ``node``; None if it is neither Q nor DQ."""
        return self._by_node.get(node) if node is not None else None

    def maker(self, value: Value | None) -> QdqNode | None:
        """Return the Q or DQ that makes ``value``; None where none does."""
        return self.get(value.producer) if value is not None else None

    def dequantizer_of(self, value: Value | None) -> QdqNode | None:
        """Return the DQ that makes ``value``, the input of a consumer; None where none does."""
        entry = self.maker(value)
        return entry if entry is not None and not entry.is_quantize else None

    def quantizer_of(self, dequantize: QdqNode) -> QdqNode | None:
        """Return the Q that a DQ reads directly; None where there is none."""
        entry = self.maker(dequantize.data)
        return entry if entry is not None and entry.is_quantize else None

    def readers(self, quantize: QdqNode) -> list[QdqNode]:
        """The DQs that read a Q's output as their data."""
        found = ((self.get(use.node), use.index) for use in quantize.uses)
        return [entry for entry, index in found if entry is not None and not entry.is_quantize and index == 0]

    def source(self, dequantize: QdqNode) -> Value | None:
        """Return the tensor that a DQ stands for: the float tensor in front of its Q, else its quantized input."""
        quantize = self.quantizer_of(dequantize)
        return quantize.data if quantize is not None else dequantize.data

    def is_weight(self, dequantize: QdqNode) -> bool:
        """Whether a DQ stands for a constant, in either form: packed, or float with a Q in front."""
        source = self.source(dequantize)
        return source is not None and self._constants.is_constant(source)

    def makes_scales(self, dequantize: QdqNode) -> bool:
        """Whether a DQ of stored codes makes only scales of other Q and DQ nodes, as in NVFP4."""
        output = dequantize.output
        if output is None or output.is_output or not output.uses or self.quantizer_of(dequantize) is not None:
            return False
        return all(self.get(use.node) is not None and use.index == 1 for use in output.uses)

    def _read(self, node: NodeView) -> QdqNode:
        axis = integer_attribute(node, "axis")
        # The opset of the default domain says nothing about com.microsoft's operators, which have the attribute.
        # TensorRT's parser asks it of all operators.
        has_axis = node.domain == MICROSOFT or node.scope.opset >= FIRST_OPSET_WITH_AXIS
        default = 1 if has_axis else 0
        scale, zero_point = node.input(1), node.input(2)
        return QdqNode(
            node=node,
            is_quantize=is_quantize(node),
            data=node.input(0),
            scale=scale,
            zero_point=zero_point,
            quantized_type=self._quantized_type(node, zero_point),
            axis=default if axis is None else axis,
            axis_given=axis is not None,
            block_size=integer_attribute(node, "block_size") or 0,
            scale_shape=self._shape(scale),
            data_rank=self._rank(node.input(0)),
        )

    def _quantized_type(self, node: NodeView, zero_point: Value | None) -> int | None:
        if not is_quantize(node):
            data = node.input(0)
            producer = data.producer if data is not None else None
            if producer is not None and is_quantize(producer):
                return self._quantized_type(producer, producer.input(2))
            return self._elem_type(data)
        if zero_point is not None:
            return self._elem_type(zero_point)
        default = LINEAR[node.op_type].quantized_type if node.op_type in LINEAR else TensorProto.UINT8
        return integer_attribute(node, "output_dtype") or default

    def _elem_type(self, value: Value | None) -> int | None:
        if value is None:
            return None
        stored = self._constants.direct(value)
        return stored.data_type if stored is not None else self._types.elem_type(value)

    def _rank(self, value: Value | None) -> int | None:
        shape = self._declared(value)
        return len(shape) if shape is not None else None

    def _shape(self, value: Value | None) -> Shape | None:
        shape = self._declared(value)
        if value is None or static_shape(shape) is not None:
            return shape
        folded = self._constants.array(value) if self._constants.is_constant(value) else None
        return folded.shape if folded is not None else shape

    def _declared(self, value: Value | None) -> Shape | None:
        """Return the stored shape of a tensor, or else the inferred one."""
        if value is None:
            return None
        stored = self._constants.direct(value)
        return tuple(stored.dims) if stored is not None else self._types.shape(value)


def is_qdq(node: NodeView) -> bool:
    """Whether ``node`` is a QuantizeLinear or DequantizeLinear of ONNX, of ONNX Runtime or of TensorRT."""
    return (node.op_type in {QUANTIZE, DEQUANTIZE} and node.domain in DOMAINS) or node.op_type in LINEAR


def is_quantize(node: NodeView) -> bool:
    """Whether ``node`` is such a QuantizeLinear."""
    found = LINEAR.get(node.op_type)
    return found.is_quantize if found is not None else node.op_type == QUANTIZE and node.domain in DOMAINS


def is_dequantized(value: Value | None) -> bool:
    """Whether a DQ makes a tensor, of ONNX, of ONNX Runtime or of TensorRT."""
    if value is None or value.producer is None:
        return False
    node = value.producer
    return (is_qdq(node) and not is_quantize(node)) or node.op_type in {MX_DEQUANTIZE, BLOCK_DEQUANTIZE}


def same_constant(left: Value | None, right: Value | None, constants: Constants) -> bool | None:
    """Whether two tensors hold equal constants: same type, shape and bits (a rank-0 and a [1] scale are equal).

    None where one of them is not constant or cannot be read. Two absent tensors are equal.
    """
    if left is right:
        return True
    if left is None or right is None:
        return False
    first, second = constants.readable(left), constants.readable(right)
    if first is None or second is None:
        return None
    # The same bytes of rank 0 and rank 1 are one element.
    same_shape = first.shape == second.shape or max(first.ndim, second.ndim) <= 1
    return first.dtype == second.dtype and same_shape and first.tobytes() == second.tobytes()


def integer_attribute(node: NodeView, name: str) -> int | None:
    """The value of an integer attribute; None where it is absent or of another type."""
    found = node.attribute(name)
    return found if isinstance(found, int) else None
