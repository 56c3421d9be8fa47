"""What a target (a consumer of Q/DQ models) accepts, as data; what it refuses, and the nearest legal alternative."""

import functools
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from onnx import TensorProto

from qdqtool.errors import ArgumentError, UsageError
from qdqtool.numerics import formats
from qdqtool.numerics.dtypes import FLOAT8E8M0
from qdqtool.numerics.granularity import Blocked, normalize_axis
from qdqtool.numerics.number_format import NumberFormat
from qdqtool.numerics.scheme import QuantParams

_SPELLING = re.compile(r"(?:sm_?)?(?P<major>\d{1,2})\.?(?P<minor>\d)", re.IGNORECASE)


def capability(text: str) -> int:
    """Parse ``8.6``, ``86`` or ``sm86`` to 86.

    Raises:
        ArgumentError: The text is not a compute capability.
    """
    match = _SPELLING.fullmatch(text.strip())
    if match is None:
        raise ArgumentError(
            f"'{text}' is not a compute capability",
            hint="write it like 8.6, 86 or sm86; `nvidia-smi --query-gpu=compute_cap --format=csv` shows it",
        )
    return int(match["major"] + match["minor"])


def capabilities(words: Iterable[str]) -> tuple[int, ...]:
    """Parse each word with :func:`capability`; return the results sorted and without duplicates."""
    return tuple(sorted(set(map(capability, words))))


def capability_name(number: int) -> str:
    """Format the number of a compute capability: 86 as ``8.6``."""
    return f"{number // 10}.{number % 10}"


ENTERPRISE = {87: "Jetson Orin", 90: "Hopper", 100: "Blackwell of data centers", 110: "Jetson Thor"}
"""GPUs for which TensorRT builds and TensorRT for RTX does not, by the number of their compute capability."""


def capability_title(number: int) -> str:
    """Return a compute capability, with the GPU if TensorRT for RTX does not build for it: ``8.7 (Jetson Orin)``."""
    return capability_name(number) + (f" ({ENTERPRISE[number]})" if number in ENTERPRISE else "")


_NAMES: dict[int, str] = {TensorProto.FLOAT: "float32", TensorProto.DOUBLE: "float64"}


@functools.lru_cache(maxsize=256)
def type_name(onnx_type: int) -> str:
    """Return the name of a ``TensorProto.DataType`` value in NumPy and ONNX: ``float32``, ``int8``, ``bfloat16``.

    For a value that ONNX does not define, return ``type`` and the number.
    """
    if onnx_type in _NAMES:
        return _NAMES[onnx_type]
    known = TensorProto.DataType.DESCRIPTOR.values_by_number.get(onnx_type)
    return known.name.lower() if known is not None else f"type {onnx_type}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The Q/DQ that a target accepts. All types are names that :func:`type_name` returns.

    Attributes:
        id: Public id: the file name with ``-`` for ``_``.
        family: A rule for a family applies to all targets of the family.
        title: Name of the target in messages and pages.
        verified: The versions with which the facts were measured.
        quantize_types: Types that QuantizeLinear may produce.
        dequantize_types: Types that DequantizeLinear may read.
        data_types: Types that QuantizeLinear may read.
        scale_types: Types that a scale may have.
        initializer_types: Types that any initializer may have; None if the target checks only used initializers.
        symmetric_types: Quantized types whose zero point must be 0.
        max_opset: Newest opset of the default domain that can be loaded; None for no limit.
        max_ir: Newest IR version that can be loaded; None for no limit.
        block_axes: Axes that may be divided into blocks, counted from the end; None for any.
        negative_scale_types: Types of stored codes whose block scales may be negative.
        whole_blocks: Whether an incomplete last block is refused.
        min_block: Smallest legal block size.
        even_sub_bytes: Whether tensors of less than 8 bits with an odd number of elements are refused.
        even_last_dimension: Whether tensors of less than 8 bits with an odd last dimension are refused.
        uint8_as_int8: Whether a QuantizeLinear to uint8 is accepted but computed as int8.
        default_axis: The axis of several scales if a node has no attribute ``axis``; None for ONNX's default.
        min_compute_capability: First GPU generation (major times 10 plus minor) with hardware for a type.
        known_compute_capabilities: The compute capabilities that engines can be built for; None for all.
        newest_compute_capability: The newest compute capability that engines can be built for; None for no limit.
        compute_capabilities: The compute capabilities that the user named; empty if there are none.
        later: Types, operators and attributes that only a later release accepts, with that release.
    """

    id: str
    family: str
    title: str
    verified: str
    quantize_types: frozenset[str]
    dequantize_types: frozenset[str]
    data_types: frozenset[str] = frozenset({"float32", "float16", "bfloat16"})
    scale_types: frozenset[str]
    initializer_types: frozenset[str] | None = None
    symmetric_types: frozenset[str]
    max_opset: int | None = None
    max_ir: int | None = None
    block_axes: frozenset[int] | None = None
    negative_scale_types: frozenset[str] = frozenset()
    whole_blocks: bool = False
    min_block: int = 1
    even_sub_bytes: bool = False
    even_last_dimension: bool = False
    uint8_as_int8: bool = False
    default_axis: int | None = None
    min_compute_capability: Mapping[str, int] = field(default_factory=dict)
    known_compute_capabilities: frozenset[int] | None = None
    newest_compute_capability: int | None = None
    compute_capabilities: tuple[int, ...] = ()
    later: Mapping[str, str] = field(default_factory=dict)

    def on(self, compute_capabilities: tuple[int, ...]) -> "Target":
        """Return the same target for GPUs with these compute capabilities (86 for 8.6)."""
        return replace(self, compute_capabilities=compute_capabilities)

    def buildable(self, number: int) -> str | None:
        """Return the GPUs that the target builds for, in words; None if the given one is among them."""
        known, newest = self.known_compute_capabilities, self.newest_compute_capability
        if known is not None and number not in known:
            return ", ".join(map(capability_name, sorted(known)))
        return f"{capability_name(newest)} or earlier" if newest is not None and number > newest else None

    def require_buildable(self, number: int, hint: str) -> None:
        """Check that engines can be built for a compute capability, such as 86 for 8.6.

        Args:
            number: The compute capability.
            hint: The end of the hint, if TensorRT 11 builds for this GPU.

        Raises:
            UsageError: They cannot.
        """
        legal = self.buildable(number)
        if legal is None:
            return
        more = f"; {hint}" if number in ENTERPRISE or self.newest_compute_capability is not None else ""
        raise UsageError(
            f"{self.title} cannot build for compute capability {capability_title(number)}",
            hint=f"it builds for {legal}{more}",
        )


Shape = tuple[int | str | None, ...]

NEAREST: dict[str, tuple[str, ...]] = {
    "int2": ("int4", "int8"),
    "uint2": ("uint4", "int4", "uint8", "int8"),
    "uint4": ("int4", "int8"),
    "uint8": ("int8",),
    "uint16": ("int16",),
    "float8e4m3fnuz": ("float8e4m3fn",),
    "float8e5m2": ("float8e4m3fn",),
    "float8e5m2fnuz": ("float8e5m2", "float8e4m3fn"),
}
"""For each format, formats of the same kind and similar width, nearest first. Other formats have none."""

SIGNED = {"uint2": "int2", "uint4": "int4", "uint8": "int8", "uint16": "int16"}
"""The signed format of the same width. If codes and zero point are shifted by half the range, the values are equal."""


@dataclass(frozen=True, slots=True)
class RefusedProperty:
    """One property that a target does not accept.

    Attributes:
        reason: The property, in words that follow the name of the target.
        alternative: The nearest alternative that the target accepts; empty if there is none.
    """

    reason: str
    alternative: str


def refusals(target: Target, params: QuantParams, data_type: str, shape: Shape | None) -> Iterator[RefusedProperty]:
    """Yield everything about a Q/DQ pair that a target does not accept.

    Args:
        target: The target.
        params: How the tensor is quantized.
        data_type: Type of the float tensor, as a name of :func:`qdqtool.models.targets.type_name`.
        shape: Shape of the tensor; None if unknown.
    """
    fmt = params.scheme.format
    if fmt.name not in target.quantize_types:
        later = f" before release {target.later[fmt.name]}" if fmt.name in target.later else ""
        yield RefusedProperty(f"takes no {fmt}{later}", _other_format(target, params))
    elif fmt.name in target.symmetric_types and _zero_points(params):
        zero = "a zero point other than 0"
        yield RefusedProperty(f"takes no {fmt} with {zero}", "zero point 0, with a symmetric scale derived for it")
    if data_type not in target.data_types:
        yield RefusedProperty(f"quantizes no {data_type}", f"a model in {', '.join(sorted(target.data_types))}")
    yield from _scale_refusals(target, params, data_type)
    if isinstance(params.scheme.granularity, Blocked) and shape is not None:
        yield from _block_refusals(target, params.scheme.granularity, shape)
    if target.even_sub_bytes and fmt.bits < 8 and shape is not None and _count(shape) % 2:
        yield RefusedProperty(f"takes no {fmt} tensor with an odd number of elements", "a padded tensor, or int8")
    elif target.even_last_dimension and fmt.bits < 8 and shape and isinstance(shape[-1], int) and shape[-1] % 2:
        yield RefusedProperty(f"takes no {fmt} tensor with an odd last dimension", "a padded tensor, or int8")


def _other_format(target: Target, params: QuantParams) -> str:
    fmt = params.scheme.format
    signed = SIGNED.get(fmt.name)
    if signed in target.quantize_types and signed is not None:
        return _as_signed(target, params, formats.get(signed))
    nearest = next((name for name in NEAREST.get(fmt.name, ()) if name in target.quantize_types), None)
    return f"{nearest}, with scales derived for its range" if nearest is not None else ""


def _as_signed(target: Target, params: QuantParams, signed: NumberFormat) -> str:
    shift = 1 << (signed.bits - 1)
    zeros = sorted({zero - shift for zero in (_zero_points(params) or {0})})
    if zeros == [0]:
        return f"{signed} with zero point 0 and the same scale: exactly the same values"
    shown = f"{zeros[0]}" if len(zeros) == 1 else f"{zeros[0]} to {zeros[-1]}"
    same = f"{signed} with zero point {shown} and the same scale has exactly the same values"
    if signed.name not in target.symmetric_types:
        return same
    return f"{signed} with zero point 0 and a symmetric scale ({same}, but only zero point 0 is taken)"


def _zero_points(params: QuantParams) -> set[int]:
    """Return the zero points; empty if all are 0."""
    if params.zero_point is None:
        return set()
    found = {int(zero) for zero in np.unique(params.zero_point.astype(np.float64))}
    return found if found != {0} else set()


def _scale_refusals(target: Target, params: QuantParams, data_type: str) -> Iterator[RefusedProperty]:
    inner = params.scheme.scale_scheme
    if params.scale.dtype == FLOAT8E8M0:
        if "float8e8m0" not in target.scale_types:
            same = f"scales in {data_type}, which holds the same powers of two" if data_type != "float16" else ""
            yield RefusedProperty("takes no scales in float8e8m0", same)
    elif inner is not None and inner.format.name not in target.dequantize_types:
        yield RefusedProperty(f"takes no scales in {inner.format}", f"scales in {data_type}")
    fmt = params.scheme.format
    if fmt.name not in target.negative_scale_types and np.any(params.scale.astype(np.float64) < 0):
        yield RefusedProperty(f"takes no negative scales of {fmt}", "positive scales, with codes chosen for them")


def _block_refusals(target: Target, blocks: Blocked, shape: Shape) -> Iterator[RefusedProperty]:
    axis = normalize_axis(blocks.axis, len(shape))
    if target.block_axes is not None and axis - len(shape) not in target.block_axes:
        last = " or ".join(str(len(shape) + back) for back in sorted(target.block_axes) if len(shape) + back >= 0)
        yield RefusedProperty(
            f"takes no blocks along axis {axis} of {len(shape)} dimensions", f"blocks along axis {last}"
        )
    if blocks.block_size < target.min_block:
        yield RefusedProperty(f"takes no blocks of {blocks.block_size}", f"blocks of at least {target.min_block}")
    extent = shape[axis]
    if target.whole_blocks and isinstance(extent, int) and extent % blocks.block_size:
        sizes = (size for size in range(min(blocks.block_size, extent), target.min_block - 1, -1) if not extent % size)
        size = next(sizes, None)
        other = f"blocks of {size}, or a tensor padded to whole blocks" if size else "a tensor padded to whole blocks"
        yield RefusedProperty(f"takes no shorter last block: {extent} elements in blocks of {blocks.block_size}", other)


def _count(shape: Shape) -> int:
    """Return the number of elements; 0 if it is unknown."""
    return math.prod(dim if isinstance(dim, int) else 0 for dim in shape)
