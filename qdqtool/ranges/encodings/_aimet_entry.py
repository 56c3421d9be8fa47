"""One tensor of AIMET's encodings, in one form for every version of the file."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qdqtool import formats
from qdqtool.errors import UsageError
from qdqtool.ranges.encodings._json import as_array
from qdqtool.ranges.encodings._types import ConstantScales, tensor_range
from qdqtool.ranges.types import TensorRange

Numbers = npt.NDArray[np.float64]

FLOAT = "float"
"""What the file leaves in float, whatever the type."""
SCALED_FLOATS = frozenset({"float8e4m3fn", "float8e5m2"})
"""Floats that AIMET gives a scale."""
WIDEST = 16
"""Bits of what AIMET computes with; its biases have 32."""
ASYMMETRIC = "asymmetric in the file: range made symmetric"
OTHER_BITS = "of other than 8 bits in the file: range used for 8"
IN_FLOAT = "float in the file: left in float"


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """One tensor: ``real = (code + offset) * scale``, where integer codes count from 0 to ``2**bits - 1``.

    Attributes:
        name: Of the tensor.
        kind: ``int``, one of :data:`SCALED_FLOATS`, or :data:`FLOAT`.
        bits: Of integers; else 0.
        scales: float64, as the file nests them; empty for a float without a scale.
        offsets: Of integers, in the shape of the scales; else empty.
        axis: Of the channels or blocks; None where the file does not say.
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
        """Name of the number format; a symmetric integer is signed however the file counts its codes."""
        if self.kind != "int":
            return self.kind
        return f"int{self.bits}" if self.is_centred else f"uint{self.bits}"

    @property
    def is_centred(self) -> bool:
        """Whether zero is in the middle of the codes, or one below it, which is AIMET's strict symmetry."""
        middle = -float(2 ** (self.bits - 1)) if self.kind == "int" else 0.0
        return self.kind != "int" or bool(np.isin(self.offsets, (middle, middle + 1)).all())

    @property
    def is_per_tensor(self) -> bool:
        """Whether there is one scale, and it is no bias."""
        return self.kind != FLOAT and self.scales.size == 1 and self.block_size is None and self.bits <= WIDEST

    def range(self) -> TensorRange:
        """What the codes of a tensor with one scale cover; of a symmetric one as far down as up."""
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
        """The scales of a constant; None where it has none, or is a bias."""
        if self.kind == FLOAT or self.bits > WIDEST:
            return None
        problem = "" if self.is_centred else "is asymmetric in the file"
        return ConstantScales(self.format, self.scales, self.axis, self.block_size, problem)

    def remark(self) -> str | None:
        """What cannot be done as the file says, if this is an activation."""
        if self.kind == FLOAT:
            return IN_FLOAT
        if not self.is_centred:
            return ASYMMETRIC
        return OTHER_BITS if self.bits not in (0, 8) else None


def float_entry(name: str) -> Entry:
    """A tensor that stays float."""
    return Entry(name, FLOAT, 0, np.zeros(0), np.zeros(0))


def integer_entry(
    name: str, bits: int, scales: Numbers, offsets: Numbers, axis: int | None = None, block_size: int | None = None
) -> Entry:
    """A tensor of integers.

    Raises:
        UsageError: There are not as many offsets as scales.
    """
    if scales.shape != offsets.shape:
        raise UsageError(f"tensor '{name}' has {scales.size} scales and {offsets.size} offsets")
    return Entry(name, "int", bits, scales, offsets, axis, block_size)


def read_bits(name: str, value: Any) -> int:
    """How many bits codes have.

    Raises:
        UsageError: The value is no such number.
    """
    if not isinstance(value, int) or isinstance(value, bool) or not 2 <= value <= 32:
        raise UsageError(f"tensor '{name}' has bitwidth {str(value)[:20]}; 2 to 32 is legal")
    return value


def read_numbers(name: str, value: Any, key: str) -> Numbers:
    """Numbers of an entry, nested as they are.

    Raises:
        UsageError: They are none, or not finite, or a scale is not above 0.
    """
    found = as_array(value)
    if found is None:
        raise UsageError(f"tensor '{name}' has the {key} {str(value)[:80]}; it must be numbers")
    if not np.isfinite(found).all() or ("scale" in key and found.min() <= 0):
        raise UsageError(f"tensor '{name}' has the {key} {str(value)[:80]}; it must be finite, a scale above 0")
    return found


def read_size(name: str, value: Any, key: str, least: int) -> int | None:
    """A whole number that may be absent.

    Raises:
        UsageError: It is something else, or below ``least``.
    """
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= least):
        return value
    raise UsageError(f"tensor '{name}' has the {key} {str(value)[:20]}; it must be a whole number from {least}")
