"""The type of a quantize mode: what becomes of weights and of activations, as data."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from qdqtool.errors import ArgumentError

if TYPE_CHECKING:
    from qdqtool.numerics.granularity import Granularity
    from qdqtool.numerics.number_format import NumberFormat
    from qdqtool.numerics.scheme import QuantScheme
    from qdqtool.ops import ProductOp


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """What ``--quantize-mode`` stands for.

    Attributes:
        summary: What it does, in one line.
        weights: Name of the number format of weights.
        activations: That of activations; None where they stay float: then no data is needed.
        blocks: Sizes of blocks that share a scale, the default first; empty for one scale for each output channel.
        scale_format: Name of the number format of the scales themselves; None for the type of the tensor.
        search: Whether weight scales are those with the least squared error, or cover the largest magnitude.
        alternative: The mode to take where a target does not take this one; empty where the format tells.
        rank: Where a text lists it among the others: the lowest first, equal ones by name.
    """

    summary: str
    weights: str
    activations: str | None = None
    blocks: tuple[int, ...] = ()
    scale_format: str | None = None
    search: bool = False
    alternative: str = ""
    rank: int = 100

    @property
    def needs_ranges(self) -> bool:
        """Whether activations are quantized, so that their ranges must be known."""
        return self.activations is not None

    @property
    def weight_format(self) -> "NumberFormat":
        """The number format of weights."""
        from qdqtool import formats

        return formats.get(self.weights)

    def packs(self, product: "ProductOp") -> bool:
        """Whether the weight of such an operator is quantized when activations stay float.

        No convolution takes blocks of input channels.
        """
        return product.is_matrix_product if self.blocks else product.packs_channels

    @property
    def integer_activations(self) -> bool:
        """Whether activations get steps of one size, which all channels of a tensor share."""
        return self.needs_ranges and self.activation_format.kind == "integer"

    @property
    def activation_format(self) -> "NumberFormat":
        """The number format of activations.

        Raises:
            ValueError: They stay float.
        """
        from qdqtool import formats

        if self.activations is None:
            raise ValueError("activations stay float")
        return formats.get(self.activations)

    def block_size(self, asked: int | None) -> int | None:
        """Elements in a block; None where scales are per output channel.

        Args:
            asked: What the user wants; None for the default.

        Raises:
            ArgumentError: The mode has no such blocks.
        """
        if asked is None:
            return self.blocks[0] if self.blocks else None
        if not self.blocks:
            raise ArgumentError("block_size is set, but this mode has one scale for each output channel; leave it out")
        if asked not in self.blocks:
            legal = ", ".join(map(str, sorted(self.blocks)))
            raise ArgumentError(f"block_size is {asked}; legal for this mode: {legal}")
        return asked

    def weight_scheme(self, granularity: "Granularity") -> "QuantScheme":
        """How a weight is quantized whose scales have that granularity."""
        from qdqtool import formats
        from qdqtool.numerics.granularity import PerTensor
        from qdqtool.numerics.scheme import QuantScheme

        inner = QuantScheme(formats.get(self.scale_format), PerTensor()) if self.scale_format else None
        return QuantScheme(self.weight_format, granularity, scale_scheme=inner)

    def example_scheme(self) -> "QuantScheme":
        """The scheme of some weight, to ask a target about."""
        from qdqtool.numerics.granularity import Blocked, PerTensor

        return self.weight_scheme(Blocked(0, self.blocks[0]) if self.blocks else PerTensor())
