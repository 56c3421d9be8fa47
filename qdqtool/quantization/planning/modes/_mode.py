"""The type of a quantize mode: the formats of weights and activations, as data."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from qdqtool.errors import ArgumentError

if TYPE_CHECKING:
    from qdqtool.models.ops import ProductOp
    from qdqtool.numerics.granularity import Granularity
    from qdqtool.numerics.number_format import NumberFormat
    from qdqtool.numerics.scheme import QuantScheme


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """The meaning of ``--quantize-mode``.

    Attributes:
        summary: The effect of the mode, in one line.
        weights: Name of the number format of weights.
        activations: Name of the number format of activations; None if they stay float, which needs no data.
        blocks: Legal block sizes (weights per scale), the default first; empty for one scale per output channel.
        scale_format: Name of the number format of the scales themselves; None if they have the type of the tensor.
        search: Whether weight scales minimize the squared error; otherwise they cover the largest magnitude.
        alternative: The mode for targets that do not accept this mode; empty if the format gives an alternative.
        rank: The position in lists: lowest rank first; modes with equal ranks are sorted by name.
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
        """Whether activations are quantized, and their ranges must be known."""
        return self.activations is not None

    @property
    def weight_format(self) -> "NumberFormat":
        """The number format of weights."""
        from qdqtool.numerics import formats

        return formats.get(self.weights)

    def packs(self, product: "ProductOp") -> bool:
        """Return whether the weights of an operator are quantized when activations stay float.

        There are no convolution kernels for blocks of input channels.
        """
        return product.is_matrix_product if self.blocks else product.packs_channels

    @property
    def integer_activations(self) -> bool:
        """Whether activations are quantized to integers: all channels of a tensor then have one step size."""
        return self.needs_ranges and self.activation_format.kind == "integer"

    @property
    def activation_format(self) -> "NumberFormat":
        """The number format of activations.

        Raises:
            ValueError: Activations stay float.
        """
        from qdqtool.numerics import formats

        if self.activations is None:
            raise ValueError("activations stay float")
        return formats.get(self.activations)

    def block_size(self, asked: int | None) -> int | None:
        """Return the number of elements in a block, or None if scales are per output channel.

        Args:
            asked: The size that the user requested; None for the default.

        Raises:
            ArgumentError: The mode has no blocks of this size.
        """
        if asked is None:
            return self.blocks[0] if self.blocks else None
        if not self.blocks:
            raise ArgumentError(
                "block_size is set, but this mode has one scale for each output channel",
                hint="leave it out, or choose a mode with blocks: `--quantize-mode int4`",
            )
        if asked not in self.blocks:
            legal = ", ".join(map(str, sorted(self.blocks)))
            raise ArgumentError(f"block_size is {asked}; legal for this mode: {legal}")
        return asked

    def weight_scheme(self, granularity: "Granularity") -> "QuantScheme":
        """Return the scheme of a weight with scales of that granularity."""
        from qdqtool.numerics import formats
        from qdqtool.numerics.granularity import PerTensor
        from qdqtool.numerics.scheme import QuantScheme

        inner = QuantScheme(formats.get(self.scale_format), PerTensor()) if self.scale_format else None
        return QuantScheme(self.weight_format, granularity, scale_scheme=inner)

    def example_scheme(self) -> "QuantScheme":
        """Return the scheme of a typical weight, to check whether a target accepts it."""
        from qdqtool.numerics.granularity import Blocked, PerTensor

        return self.weight_scheme(Blocked(0, self.blocks[0]) if self.blocks else PerTensor())
