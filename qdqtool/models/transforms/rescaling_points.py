"""Find rescaling points: tensors at which positive channel factors can move from one layer to the next.

The layer that makes the tensor is divided by the factors, and the weights of all layers that read the tensor are
multiplied by them. The outputs of the model do not change. Operators between the layers must commute with positive
factors: Relu and its leaky forms, pooling, Flatten. Clip and smooth activations do not commute.
"""

import enum
from collections.abc import Iterator
from dataclasses import dataclass, field

from qdqtool.models import ops
from qdqtool.models.graph.index.constants import Constants
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import NodeView, Scope, Use, Value
from qdqtool.models.graph.report import NodeReason
from qdqtool.models.ops import ChannelLayout, ProductOp
from qdqtool.models.ops.support.weights import StoredWeight, WeightProblem, stored_vector, stored_weight
from qdqtool.models.transforms.taps import TensorKey

MAX_STEPS = 32


class ImmovableFactors(Exception):  # noqa: N818  a reason in words, never shown as an error
    """The reason why factors cannot move past a tensor."""


@dataclass(frozen=True, slots=True, eq=False)
class Reader:
    """A weighted operator that reads a tensor with factors.

    Attributes:
        weight: The weight of the operator; its input channels are multiplied by the factors.
        tensor: The tensor that the operator reads.
        layout: The position of the channel axis in that tensor.
        repeat: Number of consecutive input channels that share a factor; more than one after a Flatten.
    """

    weight: StoredWeight
    tensor: Value
    layout: ChannelLayout
    repeat: int


class ReaderWalk:
    """Finds the readers of one tensor.

    Args:
        channels: Number of channels of the tensor.
        index: The index of the model.
        scope: The scope in which all readers must be.
    """

    def __init__(self, channels: int, index: ModelIndex, scope: Scope) -> None:
        self._channels = channels
        self._index = index
        self._scope = scope

    def readers(self, value: Value, layout: ChannelLayout, steps: int = MAX_STEPS) -> Iterator[Reader]:
        """Yield every weighted operator that reads ``value``, directly or through operators that commute.

        Raises:
            ImmovableFactors: ``value`` is a graph output, or another kind of node reads it.
        """
        if value.is_output:
            raise ImmovableFactors(f"'{value.name}' is an output of the graph")
        if not value.uses:
            raise ImmovableFactors(f"nothing reads '{value.name}'")
        if not steps:
            raise ImmovableFactors("too many nodes are between it and its readers")
        for use in value.uses:
            yield from self._through(use, value, layout, steps)

    def _through(self, use: Use, value: Value, layout: ChannelLayout, steps: int) -> Iterator[Reader]:
        node = use.node
        if node.scope is not self._scope:
            raise ImmovableFactors(f"a branch or loop body reads '{value.name}'")
        product = ops.product(node)
        if use.index == 0 and product is not None and product.channel_layout is not None:
            yield self._reader(node, product, value, layout)
            return
        rule = ops.traits(node).factor_rule
        behind = rule(node, layout, self._index) if rule is not None and use.index == 0 else None
        output = node.output()
        if behind is None or output is None or sum(map(bool, node.proto.output)) != 1:
            raise ImmovableFactors(
                f"{node.op_type} '{node.label}' reads '{value.name}', and does not commute with factors"
            )
        yield from self.readers(output, behind, steps - 1)

    def _reader(self, node: NodeView, product: ProductOp, value: Value, layout: ChannelLayout) -> Reader:
        weight = stored_weight(node, self._index.constants)
        # If the activation has two axes, such as the input of a Gemm, axis 1 is the last axis.
        rank = product.activation_rank or len(self._index.types.shape(value) or ())
        if product.channel_layout is not layout and rank != 2:
            raise ImmovableFactors(f"'{node.label}' reads '{value.name}' with its channels on another axis")
        repeat, rest = divmod(weight.layout.inputs, self._channels)
        if rest or (product.is_convolution and repeat != 1):
            raise ImmovableFactors(f"'{node.label}' does not read the channels of '{value.name}' one by one")
        return Reader(weight, value, layout, repeat)


class PointKind(enum.Enum):
    """The kind of the producing layer: an operator with a weight, or a normalization or Mul with a vector."""

    PRODUCT = "product"
    NORM = "norm"


@dataclass(frozen=True, slots=True, eq=False)
class RescalingPoint:
    """A tensor whose channels can be divided by factors that its readers multiply by.

    Attributes:
        kind: The kind of the producing layer.
        tensor: The tensor, after the bias is added.
        channels: Number of channels, which is the number of factors.
        weight: The weight of the producing layer; its output channels are divided. None for a normalization.
        vectors: Inputs with a value for each channel, such as biases and scales; they are divided as well.
        readers: The weighted operators that read the tensor; their input channels are multiplied.
    """

    kind: PointKind
    tensor: Value
    channels: int
    weight: StoredWeight | None
    vectors: tuple[tuple[NodeView, int], ...]
    readers: tuple[Reader, ...]

    @property
    def key(self) -> TensorKey:
        """Scope and name of the tensor."""
        return self.tensor.scope.path, self.tensor.name


@dataclass(slots=True, eq=False)
class _Source:
    """The producing layer, its channel layout, and the inputs that are divided by factors."""

    kind: PointKind
    node: NodeView
    layout: ChannelLayout
    channels: int
    weight: StoredWeight | None = None
    vectors: list[tuple[NodeView, int]] = field(default_factory=list)


def find_rescaling_points(
    index: ModelIndex, kind: PointKind
) -> tuple[tuple[RescalingPoint, ...], tuple[NodeReason, ...]]:
    """Find all rescaling points of one kind outside local functions, and the layers without such a point, with reasons.

    A layer has no rescaling point if no weighted operator follows it, for example if a Softmax or a graph output
    follows.
    """
    points: list[RescalingPoint] = []
    alone: list[NodeReason] = []
    for node in index.view.nodes():
        if node.scope.in_function:
            continue
        try:
            source = _source(node, index.constants, kind)
            if source is not None:
                points.append(_point(source, index))
        except (ImmovableFactors, WeightProblem) as problem:
            alone.append(node.because(str(problem)))
    return tuple(points), tuple(alone)


def _source(node: NodeView, constants: Constants, kind: PointKind) -> _Source | None:
    """Return the node as a producing layer of that kind, or None if it is of another kind."""
    if kind is PointKind.PRODUCT:
        return _product(node, constants)
    normalized = ops.traits(node).normalizes
    if normalized is not None:
        return _norm(node, normalized, constants)
    return _multiplication(node, constants) if node.is_op("Mul") else None


def _product(node: NodeView, constants: Constants) -> _Source | None:
    product = ops.product(node)
    if product is None or product.channel_layout is None or _is_activation_product(node, constants):
        return None
    weight = stored_weight(node, constants)
    source = _Source(PointKind.PRODUCT, node, product.channel_layout, weight.layout.outputs, weight)
    if product.bias_input is not None and node.input_name(product.bias_input):
        stored_vector(node, product.bias_input, source.channels, constants)
        source.vectors.append((node, product.bias_input))
    return source


def _is_activation_product(node: NodeView, constants: Constants) -> bool:
    value = node.input(1)
    return value is None or not constants.is_constant(value)


def _norm(node: NodeView, layout: ChannelLayout, constants: Constants) -> _Source:
    if node.attribute("axis", -1) != -1:
        raise ImmovableFactors("it normalizes over more than the last axis")
    if len(node.proto.output) > 1:
        raise ImmovableFactors("it also returns the mean or the variance")
    channels = stored_vector(node, 1, None, constants)
    source = _Source(PointKind.NORM, node, layout, channels, vectors=[(node, 1)])
    if node.input_name(2):
        stored_vector(node, 2, channels, constants)
        source.vectors.append((node, 2))
    return source


def _multiplication(node: NodeView, constants: Constants) -> _Source | None:
    """Return a Mul by a stored vector as a producing layer: the last node of a decomposed normalization."""
    for index in (0, 1):
        value = node.input(index)
        if value is not None and constants.is_constant(value):
            try:
                channels = stored_vector(node, index, None, constants)
            except WeightProblem:
                return None
            return _Source(PointKind.NORM, node, ChannelLayout.LAST, channels, vectors=[(node, index)])
    return None


def _point(source: _Source, index: ModelIndex) -> RescalingPoint:
    tensor = source.node.output()
    assert tensor is not None
    if source.layout is ChannelLayout.LAST:
        tensor = _behind_bias(source, tensor, index.constants)
    walk = ReaderWalk(source.channels, index, source.node.scope)
    readers = tuple(walk.readers(tensor, source.layout))
    return RescalingPoint(source.kind, tensor, source.channels, source.weight, tuple(source.vectors), readers)


def _behind_bias(source: _Source, tensor: Value, constants: Constants) -> Value:
    """If the only reader of ``tensor`` is an Add of a stored bias, return its output; otherwise return ``tensor``."""
    if len(tensor.uses) != 1 or tensor.is_output or not tensor.uses[0].node.is_op("Add"):
        return tensor
    add, output = tensor.uses[0].node, tensor.uses[0].node.output()
    if add.scope is not tensor.scope or output is None:
        return tensor
    try:
        stored_vector(add, 1 - tensor.uses[0].index, source.channels, constants)
    except WeightProblem:
        return tensor
    source.vectors.append((add, 1 - tensor.uses[0].index))
    return output


def point_tensors(points: tuple[RescalingPoint, ...]) -> Iterator[tuple[Value, ChannelLayout]]:
    """Yield every tensor that a reader of a rescaling point reads, with its channel layout."""
    for point in points:
        for reader in point.readers:
            yield reader.tensor, reader.layout
