"""The type of a quantizable operator: which inputs take Q/DQ pairs, and how its weights are laid out."""

from collections.abc import Sequence
from typing import ClassVar

from qdqtool.graph.index.view import NodeView
from qdqtool.numerics.number_format import NumberFormat

LEAST_CHANNELS = 16
"""Kernels work on tiles of 16 or 32 channels, and pad what is smaller."""


class QuantizableOp:
    """One operator family. Subclasses are class data; they override a method where the answer depends on the node.

    Attributes:
        domain: Domain of the operators; empty for ONNX's own.
        op_types: Operators of that domain.
        activation_inputs: Inputs that take per-tensor pairs.
        weight_input: The input that takes a per-axis or blocked pair when it is constant; None without weights.
        bias_input: The input that is added in the accumulator's type and stays float; None without one.
        two_activations: Whether kernels take two activations as well as an activation and a weight.
        stays_float: Why it gains nothing from pairs, in words that follow the name of a node; None where it gains.
        on_request: Whether an operator that gains nothing is quantized all the same for a user who names it.
    """

    domain: ClassVar[str] = ""
    op_types: ClassVar[tuple[str, ...]]
    activation_inputs: ClassVar[tuple[int, ...]] = (0,)
    weight_input: ClassVar[int | None] = None
    bias_input: ClassVar[int | None] = None
    two_activations: ClassVar[bool] = False
    stays_float: ClassVar[str | None] = None
    on_request: ClassVar[bool] = False

    def of(self, node: NodeView) -> "QuantizableOp | None":
        """What is known of one node of the family: the family itself, unless its attributes make it something else."""
        del node
        return self

    @property
    def weighted(self) -> bool:
        """Whether it multiplies an activation with weights: what int8 and fp8 kernels exist for."""
        return self.weight_input is not None

    def gains(self, channels: tuple[int, int]) -> bool:
        """Whether a layer with so many input and output channels gains from quantized kernels.

        A convolution slides its weight over many places, so one side of a full tile is enough: the first layer of an
        image model has 3 input channels. A matrix product with a short side is over in no time, and as the last layer
        of a classifier it is where rounding hurts most.
        """
        side = min(channels) if self.two_activations else max(channels)
        return side >= LEAST_CHANNELS

    def quantized_inputs(self, node: NodeView) -> tuple[int, ...]:
        """The inputs of ``node`` that take a pair: activations first, then the weight."""
        del node
        weight = () if self.weight_input is None else (self.weight_input,)
        return (*self.activation_inputs, *weight)

    def weight_axis(self, node: NodeView, rank: int) -> int | None:
        """The output-channel axis of a weight of that rank: the only legal axis of per-axis scales."""
        del node, rank
        return None

    def reduction_axis(self, node: NodeView, rank: int) -> int | None:
        """The axis of such a weight that the products are summed over: the axis that block scales divide."""
        del node, rank
        return None

    def missing_kernel(
        self, node: NodeView, weight_shape: Sequence[int | str | None], number_format: NumberFormat
    ) -> str | None:
        """Why kernels of that format do not take a weight of that shape; None where nothing is known against it."""
        del node, weight_shape, number_format
        return None

    def channels(self, node: NodeView, weight_shape: Sequence[int | str | None]) -> tuple[int, int] | None:
        """Input and output channels of a weight of that shape; None where they are not known or ``node`` is grouped."""
        rank = len(weight_shape)
        if rank < 2 or node.attribute("group", 1) != 1:
            return None
        inner, outer = self.reduction_axis(node, rank), self.weight_axis(node, rank)
        if inner is None or outer is None:
            return None
        extents = weight_shape[inner], weight_shape[outer]
        return (extents[0], extents[1]) if isinstance(extents[0], int) and isinstance(extents[1], int) else None
