"""Follow a tensor to the products that read it, through operators that commute with a factor for each channel."""

from collections.abc import Iterator
from dataclasses import dataclass

from qdqtool.models import ops
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import NodeView, Scope, Use, Value
from qdqtool.models.ops import ChannelLayout, ProductOp
from qdqtool.models.ops.support.weights import StoredWeight, stored_weight

MAX_STEPS = 32


class Blocked(Exception):  # noqa: N818  a reason in words, never shown as an error
    """The reason why factors cannot be moved past a tensor."""


@dataclass(frozen=True, slots=True, eq=False)
class Reader:
    """A product that reads a tensor with factors.

    Attributes:
        weight: Its weight, whose input channels take the factors.
        tensor: The tensor that it reads.
        layout: The axis of the channels of that tensor.
        repeat: How many neighbouring input channels share a factor: more than one behind a Flatten.
    """

    weight: StoredWeight
    tensor: Value
    layout: ChannelLayout
    repeat: int


class Walk:
    """Finds the readers of one tensor.

    Args:
        channels: How many channels the tensor has.
        index: The index of the model.
        scope: The scope in which all readers must be.
    """

    def __init__(self, channels: int, index: ModelIndex, scope: Scope) -> None:
        self._channels = channels
        self._index = index
        self._scope = scope

    def readers(self, value: Value, layout: ChannelLayout, steps: int = MAX_STEPS) -> Iterator[Reader]:
        """Yield every product that reads ``value``, directly or through operators that commute.

        Raises:
            Blocked: Anything else reads it too.
            WeightProblem: The weight of a reader cannot be changed.
        """
        if value.is_output:
            raise Blocked(f"'{value.name}' is an output of the graph")
        if not value.uses:
            raise Blocked(f"nothing reads '{value.name}'")
        if not steps:
            raise Blocked("the way to its readers is too long")
        for use in value.uses:
            yield from self._through(use, value, layout, steps)

    def _through(self, use: Use, value: Value, layout: ChannelLayout, steps: int) -> Iterator[Reader]:
        node = use.node
        if node.scope is not self._scope:
            raise Blocked(f"a branch or loop body reads '{value.name}'")
        product = ops.product(node)
        if use.index == 0 and product is not None and product.channel_layout is not None:
            yield self._reader(node, product, value, layout)
            return
        rule = ops.traits(node).factor_rule
        behind = rule(node, layout, self._index) if rule is not None and use.index == 0 else None
        output = node.output()
        if behind is None or output is None or sum(map(bool, node.proto.output)) != 1:
            raise Blocked(f"{node.op_type} '{node.label}' reads '{value.name}', and does not commute with factors")
        yield from self.readers(output, behind, steps - 1)

    def _reader(self, node: NodeView, product: ProductOp, value: Value, layout: ChannelLayout) -> Reader:
        weight = stored_weight(node, self._index.constants)
        # Where the activation has two axes, as that of a Gemm, axis 1 and the last axis are the same.
        rank = product.activation_rank or len(self._index.types.shape(value) or ())
        if product.channel_layout is not layout and rank != 2:
            raise Blocked(f"'{node.label}' reads '{value.name}' with its channels on another axis")
        repeat, rest = divmod(weight.layout.inputs, self._channels)
        if rest or (product.is_convolution and repeat != 1):
            raise Blocked(f"'{node.label}' does not read the channels of '{value.name}' one by one")
        return Reader(weight, value, layout, repeat)
