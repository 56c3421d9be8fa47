"""The facts that the targets TensorRT and TensorRT for RTX share: their parser, and the changes of each release.

The changes were not measured. They come from the published source and changelog of TensorRT's ONNX parser, and from the
names of types and layers in its Python packages.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from qdqtool.models.targets._target import Target

MEASURED = "tensorrt-rtx 1.7.1.116"
"""The release with which facts about TensorRT for RTX were measured, unless a fact names another release."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseChange:
    """The changes of one release.

    Attributes:
        since: The release, such as ``10.8``.
        summary: Description of the changes.
        evidence: The source of this information.
        brings: Types, operators and attributes (``DequantizeLinear.output_dtype``) that earlier releases refuse.
        before: Field values of :class:`Target` for earlier releases.
    """

    since: str
    summary: str
    evidence: str
    brings: frozenset[str] = frozenset()
    before: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Releases:
    """The releases of one target.

    Attributes:
        title: Name of the product without a release.
        verified: The source of the facts about releases.
        numbers: Major and minor number of each release, oldest first.
        changes: The changes of releases, newest first. A release without a change equals the one before it.
    """

    title: str
    verified: str
    numbers: tuple[str, ...]
    changes: tuple[ReleaseChange, ...]

    def older(self, newest: Target, number: str) -> Target:
        """Return the target for the release ``number``, one of :attr:`numbers`."""
        target = replace(
            newest, id=f"{newest.id}-{number}", title=f"{self.title} {number}", verified=self.verified, later={}
        )
        for change in self.changes:
            if _order(number) < _order(change.since):
                target = _before(target, change)
        return target


def _before(target: Target, change: ReleaseChange) -> Target:
    less = replace(
        target,
        quantize_types=target.quantize_types - change.brings,
        dequantize_types=target.dequantize_types - change.brings,
        initializer_types=target.initializer_types - change.brings if target.initializer_types is not None else None,
        later={**target.later, **dict.fromkeys(change.brings, change.since)},
    )
    return replace(less, **dict(change.before))  # type: ignore[arg-type]  # the values are checked by a test


def _order(number: str) -> tuple[int, ...]:
    """Return a sort key that puts ``10.8`` before ``10.15``."""
    return tuple(map(int, number.split(".")))


CHANGES = (
    ReleaseChange(
        since="11.0",
        summary="the operators TRT_Attention, TRT_KVCacheUpdate and TRT_MoE",
        evidence="release notes; add_attention_v2 in the Python package for the first",
        brings=frozenset({"TRT_Attention", "TRT_KVCacheUpdate", "TRT_MoE"}),
    ),
    ReleaseChange(
        since="10.15",
        summary="several scales without an axis are read along axis 1, as ONNX says, not 0; blocks of two dimensions "
        "(TRT_BlockQuantize, TRT_BlockDequantize, TRT_DynamicQuantize); RMSNormalization, RotaryEmbedding, "
        "TensorScatter",
        evidence="changelog of the parser for the operators; source of the parser for the axis: 0 in 10.10, 1 in 10.15 "
        "(the release that changed it is not known)",
        brings=frozenset(
            {
                "RMSNormalization",
                "RotaryEmbedding",
                "TRT_BlockDequantize",
                "TRT_BlockQuantize",
                "TRT_DynamicQuantize",
                "TensorScatter",
            }
        ),
        before={"default_axis": 0},
    ),
    ReleaseChange(
        since="10.14",
        summary="the operator Attention",
        evidence="changelog of the parser; add_attention in the Python package",
        brings=frozenset({"Attention"}),
    ),
    ReleaseChange(
        since="10.12",
        summary="MXFP8, through TRT_MXFP8QuantizeLinear, TRT_MXFP8DequantizeLinear and TRT_MXFP8DynamicQuantize",
        evidence="changelog of the parser; DataType.E8M0 in the Python package",
        brings=frozenset({"TRT_MXFP8DequantizeLinear", "TRT_MXFP8DynamicQuantize", "TRT_MXFP8QuantizeLinear"}),
    ),
    ReleaseChange(
        since="10.10",
        summary="a Q to uint8, which was refused before, is computed as int8; output_dtype of a DQ",
        evidence="the parser's changelog on uint8, and its source in 10.8 and 10.10",
        brings=frozenset({"DequantizeLinear.output_dtype"}),
        before={"uint8_as_int8": False},
    ),
    ReleaseChange(
        since="10.8",
        summary="float4e2m1 and TRT_FP4DynamicQuantize; GPUs from compute capability 10.0 on",
        evidence="changelog of the parser and DataType.FP4 in the Python package; release notes for the GPUs",
        brings=frozenset({"TRT_FP4DynamicQuantize", "float4e2m1"}),
        before={"newest_compute_capability": 90},
    ),
    ReleaseChange(
        since="10.6",
        summary="a 4-bit tensor needs an even number of elements (before: an even last dimension)",
        evidence="source of the parser: the last dimension in 10.1, the number of elements in 10.6 (the release that "
        "changed it is not known)",
        before={"even_last_dimension": True},
    ),
    ReleaseChange(
        since="10.5",
        summary="the operator STFT",
        evidence="changelog of the parser",
        brings=frozenset({"STFT"}),
    ),
    ReleaseChange(
        since="10.4",
        summary="the operators BlackmanWindow, HammingWindow and HannWindow",
        evidence="changelog of the parser",
        brings=frozenset({"BlackmanWindow", "HammingWindow", "HannWindow"}),
    ),
    ReleaseChange(
        since="10.1",
        summary="the operator DeformConv",
        evidence="changelog of the parser",
        brings=frozenset({"DeformConv"}),
    ),
)
"""Newest first, as :class:`qdqtool.models.targets._tensorrt.Releases` requires."""


_QUANTIZE_TYPES = frozenset({"int8", "int4", "float8e4m3fn", "float4e2m1"})
"""Types of a Q/DQ pair that the parser treats as ONNX specifies. It also accepts a Q to uint8, but computes int8."""

_FLOAT_TYPES = frozenset({"float32", "float16", "bfloat16"})

PARSER = Target(
    id="tensorrt",
    family="tensorrt",
    title="the ONNX parser of TensorRT",
    verified=MEASURED,
    quantize_types=_QUANTIZE_TYPES,
    dequantize_types=_QUANTIZE_TYPES,
    # The parser converts float64 to float32 silently.
    data_types=_FLOAT_TYPES | {"float64"},
    scale_types=_FLOAT_TYPES | {"float64"},
    # The parser refuses initializers of other types even if they are unused.
    initializer_types=_FLOAT_TYPES | _QUANTIZE_TYPES | {"float64", "uint8", "int32", "int64", "bool"},
    # The parser refuses nonzero zero points ("Non-zero zero point is not supported") for int8, uint8, int4 and fp4; it
    # ignores them for fp8.
    symmetric_types=_QUANTIZE_TYPES | {"uint8"},
    # "the blocking dimension must be the last or second to last dimension"
    block_axes=frozenset({-1, -2}),
    whole_blocks=True,
    # The parser does not accept a scale for each element as a block.
    min_block=2,
    even_sub_bytes=True,
    uint8_as_int8=True,
)
"""What the parsers of both products refuse. They match only operator names, and treat opsets 10 to 28 alike."""
