"""The QuantizeLinear and DequantizeLinear nodes of a model, interpreted once as ONNX defines them.

All code that reads Q/DQ nodes (validate, inspect, strip, check, build) uses :class:`QdqIndex`. Therefore all agree on
the quantized type, the axis, the granularity, and which Q belongs to which DQ. Nothing is judged here: a fact that is
missing in a malformed node is None, and the rules report it.
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
"""Domains in which Q and DQ have the same meaning. TensorRT's parser matches only operator names and treats all of them
as ONNX's; Model Optimizer writes ``trt``."""

FIRST_OPSET_WITH_AXIS = 13


@dataclass(frozen=True, slots=True, eq=False)
class QdqNode:
    """A QuantizeLinear or DequantizeLinear node.

    Attributes:
        node: The node. Its domain is one of :data:`DOMAINS`, or it is an equivalent operator of TensorRT
            (:data:`qdqtool.models.graph.index.tensorrt_operators.LINEAR`).
        is_quantize: True for QuantizeLinear, False for DequantizeLinear.
        data: Input 0; None if it is absent or undefined.
        scale: Input 1; None if it is absent or undefined.
        zero_point: Input 2; None if it is absent or undefined.
        quantized_type: ``TensorProto.DataType`` of the quantized side, or None if unknown. For a DQ: the type of the
            data. For a Q: the type of the zero point, or ``output_dtype``. Without both: the type in the name of
            TensorRT's operator, or uint8 (the ONNX default).
        axis: The axis that applies; may be negative. Default 1 (0 below opset 13, where the attribute does not exist).
        axis_given: Whether the node has the attribute ``axis``.
        block_size: The attribute ``block_size``; 0 if absent.
        scale_shape: Shape of the scale; None if unknown.
        data_rank: Rank of the data; None if unknown.
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
        """The output of the node."""
        return self.node.output()

    @property
    def standard_name(self) -> str:
        """The name of the equivalent ONNX operator."""
        return QUANTIZE if self.is_quantize else DEQUANTIZE

    @property
    def is_standard(self) -> bool:
        """Whether the operator is ONNX's, not one of ONNX Runtime or TensorRT."""
        return not self.node.domain and self.node.op_type in {QUANTIZE, DEQUANTIZE}

    @property
    def is_of_tensorrt(self) -> bool:
        """Whether only TensorRT knows the operator."""
        return self.node.domain == TENSORRT or self.node.op_type in LINEAR

    @property
    def is_dynamic(self) -> bool:
        """Whether the node is a DQ whose codes and scales are computed from the data by a TensorRT operator."""
        maker = self.data.producer if self.data is not None else None
        return maker is not None and maker.op_type in MAKES_SCALES

    @property
    def output_dtype(self) -> int | None:
        """The attribute ``output_dtype``; None if it is absent or 0 (which means absent)."""
        return integer_attribute(self.node, "output_dtype") or None

    @property
    def granularity(self) -> Granularity | None:
        """The granularity that :func:`as_onnx_reads` returns; None if the scale is illegal or its extent is unknown."""
        shape = self.scale_shape
        if shape is None or (len(shape) == 1 and not isinstance(shape[0], int)):
            return None
        return as_onnx_reads(shape, self.data_rank, self.axis, self.block_size)

    @property
    def uses(self) -> list[Use]:
        """Every use of the output, in its own scope and in subgraphs."""
        return self.output.uses if self.output is not None else []


@dataclass(frozen=True, slots=True, eq=False)
class QdqPair:
    """A Q and one DQ that reads it. A Q with three DQ readers makes three pairs."""

    quantize: QdqNode
    dequantize: QdqNode


class QdqIndex:
    """All Q and DQ nodes of a model, in every scope.

    Attributes:
        nodes: Every Q and DQ, in the order of the model.
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
        """Yield every QuantizeLinear."""
        return (entry for entry in self.nodes if entry.is_quantize)

    def dequantizers(self) -> Iterator[QdqNode]:
        """Yield every DequantizeLinear."""
        return (entry for entry in self.nodes if not entry.is_quantize)

    def get(self, node: NodeView | None) -> QdqNode | None:
        """Return the entry of ``node``, or None if it is neither Q nor DQ."""
        return self._by_node.get(node) if node is not None else None

    def maker(self, value: Value | None) -> QdqNode | None:
        """Return the Q or DQ that makes ``value``, or None if another node makes it."""
        return self.get(value.producer) if value is not None else None

    def dequantizer_of(self, value: Value | None) -> QdqNode | None:
        """Return the DQ that makes ``value``, or None if no DQ makes it."""
        entry = self.maker(value)
        return entry if entry is not None and not entry.is_quantize else None

    def quantizer_of(self, dequantize: QdqNode) -> QdqNode | None:
        """Return the Q that a DQ reads directly, or None if it reads another tensor."""
        entry = self.maker(dequantize.data)
        return entry if entry is not None and entry.is_quantize else None

    def readers(self, quantize: QdqNode) -> list[QdqNode]:
        """Return the DQ nodes that read the output of a Q as their data."""
        found = ((self.get(use.node), use.index) for use in quantize.uses)
        return [entry for entry, index in found if entry is not None and not entry.is_quantize and index == 0]

    def source(self, dequantize: QdqNode) -> Value | None:
        """Return the tensor that a DQ represents: the float input of its Q, or its quantized input if it has no Q."""
        quantize = self.quantizer_of(dequantize)
        return quantize.data if quantize is not None else dequantize.data

    def is_weight(self, dequantize: QdqNode) -> bool:
        """Return whether a DQ represents a constant: stored codes, or a float constant before a Q."""
        source = self.source(dequantize)
        return source is not None and self._constants.is_constant(source)

    def makes_scales(self, dequantize: QdqNode) -> bool:
        """Return whether a DQ of stored codes makes scales for other Q and DQ nodes and nothing else, as in NVFP4."""
        output = dequantize.output
        if output is None or output.is_output or not output.uses or self.quantizer_of(dequantize) is not None:
            return False
        return all(self.get(use.node) is not None and use.index == 1 for use in output.uses)

    def _read(self, node: NodeView) -> QdqNode:
        axis = integer_attribute(node, "axis")
        # com.microsoft's operators have the attribute in every opset of the default domain. TensorRT's parser applies
        # the opset to all operators.
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
        """Return the shape of a stored tensor, otherwise the inferred shape."""
        if value is None:
            return None
        stored = self._constants.direct(value)
        return tuple(stored.dims) if stored is not None else self._types.shape(value)


def is_qdq(node: NodeView) -> bool:
    """Return whether ``node`` is a QuantizeLinear or DequantizeLinear of ONNX, ONNX Runtime or TensorRT."""
    return (node.op_type in {QUANTIZE, DEQUANTIZE} and node.domain in DOMAINS) or node.op_type in LINEAR


def is_quantize(node: NodeView) -> bool:
    """Return whether ``node`` is a QuantizeLinear of ONNX, ONNX Runtime or TensorRT."""
    found = LINEAR.get(node.op_type)
    return found.is_quantize if found is not None else node.op_type == QUANTIZE and node.domain in DOMAINS


def is_dequantized(value: Value | None) -> bool:
    """Return whether a DQ of ONNX, ONNX Runtime or TensorRT makes a tensor."""
    if value is None or value.producer is None:
        return False
    node = value.producer
    return (is_qdq(node) and not is_quantize(node)) or node.op_type in {MX_DEQUANTIZE, BLOCK_DEQUANTIZE}


def same_constant(left: Value | None, right: Value | None, constants: Constants) -> bool | None:
    """Return whether two constants are equal in type, shape and bits. A scale of rank 0 equals one of shape [1].

    Return None if one of them is not constant or cannot be read. Two absent tensors are equal.
    """
    if left is right:
        return True
    if left is None or right is None:
        return False
    first, second = constants.readable(left), constants.readable(right)
    if first is None or second is None:
        return None
    # Equal bytes with rank 0 and rank 1 are a single element.
    same_shape = first.shape == second.shape or max(first.ndim, second.ndim) <= 1
    return first.dtype == second.dtype and same_shape and first.tobytes() == second.tobytes()


def integer_attribute(node: NodeView, name: str) -> int | None:
    """Return the value of an integer attribute, or None if it is absent or has another type."""
    found = node.attribute(name)
    return found if isinstance(found, int) else None
