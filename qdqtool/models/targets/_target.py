"""The type that describes, as data, what one consumer of Q/DQ models accepts."""

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from onnx import TensorProto

from qdqtool.errors import ArgumentError

_SPELLING = re.compile(r"(?:sm_?)?(?P<major>\d{1,2})\.?(?P<minor>\d)", re.IGNORECASE)


def capability(text: str) -> int:
    """Parse ``8.6``, ``86`` or ``sm86`` to 86.

    Raises:
        ArgumentError: The text is not a compute capability.
    """
    match = _SPELLING.fullmatch(text.strip())
    if match is None:
        raise ArgumentError(
            f"'{text}' is no compute capability",
            hint="write it like 8.6, 86 or sm86; `nvidia-smi --query-gpu=compute_cap --format=csv` shows it",
        )
    return int(match["major"] + match["minor"])


def capabilities(words: Iterable[str]) -> tuple[int, ...]:
    """Parse each word with :func:`capability`; return the results sorted, each once."""
    return tuple(sorted(set(map(capability, words))))


def capability_name(number: int) -> str:
    """Spell 86 as ``8.6``."""
    return f"{number // 10}.{number % 10}"


_NAMES: dict[int, str] = {TensorProto.FLOAT: "float32", TensorProto.DOUBLE: "float64"}


@functools.lru_cache(maxsize=256)
def type_name(onnx_type: int) -> str:
    """The name of a ``TensorProto.DataType`` value as NumPy and ONNX spell it: ``float32``, ``int8``, ``bfloat16``.

    Values that ONNX does not define are spelled as numbers.
    """
    if onnx_type in _NAMES:
        return _NAMES[onnx_type]
    known = TensorProto.DataType.DESCRIPTOR.values_by_number.get(onnx_type)
    return known.name.lower() if known is not None else f"type {onnx_type}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The Q/DQ that one consumer of models accepts. All types are named as :func:`type_name` spells them.

    Attributes:
        id: Public id, the file name with ``-`` for ``_``.
        family: Rules that speak of a family apply to every target of it.
        title: What it is, for people.
        verified: The versions on which the facts were measured.
        quantize_types: Types that QuantizeLinear may produce.
        dequantize_types: Types that DequantizeLinear may read.
        data_types: Types that QuantizeLinear may read.
        scale_types: Types of a scale.
        initializer_types: Types that any initializer may have; None where the target looks only at those in use.
        symmetric_types: Quantized types whose zero point must be 0.
        max_opset: Newest opset of the default domain that it loads; None for no limit.
        max_ir: Newest IR version that it loads; None for no limit.
        block_axes: Axes along which blocks may lie, counted from the end; None for any.
        negative_scale_types: Types of stored codes whose block scales may be negative.
        whole_blocks: Whether it refuses a shorter last block.
        min_block: Smallest block.
        even_sub_bytes: Whether it refuses tensors of less than 8 bits with an odd number of elements.
        even_last_dimension: Whether it refuses those whose last dimension is odd.
        uint8_as_int8: Whether it takes a QuantizeLinear to uint8 and computes int8.
        default_axis: The axis of several scales where a node names none; None for what ONNX says.
        min_compute_capability: First GPU generation (major times 10 plus minor) with hardware for a type.
        known_compute_capabilities: Those that it can build for; None for all.
        newest_compute_capability: The newest that it can build for; None for no limit.
        compute_capabilities: Those that the user names; empty where none are named.
        later: Types, operators and attributes that a later release accepts and this one refuses, with that release.
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
        """Return the same target for these GPUs; 86 for 8.6."""
        return replace(self, compute_capabilities=compute_capabilities)
