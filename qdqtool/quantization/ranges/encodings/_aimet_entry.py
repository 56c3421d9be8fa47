"""One tensor of AIMET's encodings, in one form for all versions of the file."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qdqtool.errors import UsageError
from qdqtool.numerics import formats
from qdqtool.quantization.ranges.encodings._types import ConstantScales, as_array, tensor_range
from qdqtool.quantization.ranges.types import TensorRange

Numbers = npt.NDArray[np.float64]

FLOAT = "float"
"""The kind of a tensor that stays float, of any float type."""
SCALED_FLOATS = frozenset({"float8e4m3fn", "float8e5m2"})
"""Float formats that have a scale in AIMET."""
WIDEST = 16
"""Largest number of bits of weights and activations in AIMET; biases have 32 bits."""
ASYMMETRIC = "asymmetric in the file: range made symmetric"
OTHER_BITS = "not of 8 bits in the file: range used for 8 bits"
IN_FLOAT = "float in the file: unquantized"


@dataclass(frozen=True, slots=True, eq=False)
class AimetEntry:
    """One tensor: ``real = (code + offset) * scale``, where integer codes count from 0 to ``2**bits - 1``.

    Attributes:
        name: Name of the tensor.
        kind: ``int``, one of :data:`SCALED_FLOATS`, or :data:`FLOAT`.
        bits: Bits of integers; else 0.
        scales: float64, nested as in the file; empty for a float without a scale.
        offsets: Offsets of integers, in the shape of the scales; empty for floats.
        axis: Axis of the channels or blocks; None if the file does not state it.
        block_size: Elements in a block; None without blocks.
    """

    name: str
    kind: str
    bits: int
    scales: Numbers
    offsets: Numbers
    axis: int | None = None
    block_size: int | None = None

    @property
    def format(self) -> str:
        """Name of the number format; a symmetric integer is signed, however the file counts its codes."""
        if self.kind != "int":
            return self.kind
        return f"int{self.bits}" if self.is_centred else f"uint{self.bits}"

    @property
    def is_centred(self) -> bool:
        """Whether the code of zero is the middle code or, in AIMET's strict symmetry, the code below it."""
        middle = -float(2 ** (self.bits - 1)) if self.kind == "int" else 0.0
        return self.kind != "int" or bool(np.isin(self.offsets, (middle, middle + 1)).all())

    @property
    def is_per_tensor(self) -> bool:
        """Whether the tensor has one scale and is not a bias."""
        return self.kind != FLOAT and self.scales.size == 1 and self.block_size is None and self.bits <= WIDEST

    def range(self) -> TensorRange:
        """Return the range that the codes of a tensor with one scale cover; symmetric if the codes are."""
        scale = self.scales.item()
        if self.kind != "int":
            high = formats.get(self.kind).high * scale
            return tensor_range(self.name, -high, high)
        if self.is_centred:
            high = (2 ** (self.bits - 1) - 1) * scale
            return tensor_range(self.name, -high, high)
        offset = self.offsets.item()
        low, high = offset * scale, (offset + 2**self.bits - 1) * scale
        return tensor_range(self.name, low, high)

    def constant(self) -> ConstantScales | None:
        """Return the scales of a constant, or None for a bias or a constant without scales."""
        if self.kind == FLOAT or self.bits > WIDEST:
            return None
        problem = "" if self.is_centred else "is asymmetric in the file"
        return ConstantScales(self.format, self.scales, self.axis, self.block_size, problem)

    def remark(self) -> str | None:
        """Return the statement of the file that qdqtool cannot follow for an activation, or None."""
        if self.kind == FLOAT:
            return IN_FLOAT
        if not self.is_centred:
            return ASYMMETRIC
        return OTHER_BITS if self.bits not in (0, 8) else None


def float_entry(name: str) -> AimetEntry:
    """Return the entry of a tensor that stays float."""
    return AimetEntry(name, FLOAT, 0, np.zeros(0), np.zeros(0))


def integer_entry(
    name: str, bits: int, scales: Numbers, offsets: Numbers, axis: int | None = None, block_size: int | None = None
) -> AimetEntry:
    """Return the entry of a tensor of integers.

    Raises:
        UsageError: Offsets and scales differ in number.
    """
    if scales.shape != offsets.shape:
        raise UsageError(f"tensor '{name}' has {scales.size} scales and {offsets.size} offsets")
    return AimetEntry(name, "int", bits, scales, offsets, axis, block_size)


def read_bits(name: str, value: Any) -> int:
    """Return the number of bits of the codes.

    Raises:
        UsageError: The value is not a legal number of bits.
    """
    if not isinstance(value, int) or isinstance(value, bool) or not 2 <= value <= 32:
        raise UsageError(f"tensor '{name}' has bitwidth {str(value)[:20]}; 2 to 32 is legal")
    return value


def read_numbers(name: str, value: Any, key: str) -> Numbers:
    """Return the numbers of an entry, nested as in the file.

    Raises:
        UsageError: The numbers are missing or not finite, or a scale is not above 0.
    """
    found = as_array(value)
    if found is None:
        raise UsageError(f"tensor '{name}' has the {key} {str(value)[:80]}; it must be numbers")
    if not np.isfinite(found).all() or ("scale" in key and found.min() <= 0):
        raise UsageError(f"tensor '{name}' has the {key} {str(value)[:80]}; it must be finite, a scale above 0")
    return found


def read_size(name: str, value: Any, key: str, least: int) -> int | None:
    """Return a whole number that may be absent.

    Raises:
        UsageError: The value is not a whole number, or is below ``least``.
    """
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= least):
        return value
    raise UsageError(f"tensor '{name}' has the {key} {str(value)[:20]}; it must be a whole number from {least}")
