"""Choices that several commands share: how constants are stored, and how ONNX Runtime runs a model."""

import enum
from dataclasses import dataclass, replace
from pathlib import Path

from qdqtool.options import Kind, option


class ExternalData(enum.Enum):
    """Where weights are stored: as in the input or by size, always in a second file, or always in the model file."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


class WeightStorage(enum.Enum):
    """How a quantized constant is stored: as packed codes before a DQ, or as float before Q and DQ."""

    PACKED = "packed"
    QDQ = "qdq"


class HalfType(enum.Enum):
    """A float type of 16 bits: ``fp16`` is ONNX's FLOAT16, ``bf16`` its BFLOAT16."""

    FP16 = "fp16"
    BF16 = "bf16"

    @property
    def onnx_name(self) -> str:
        """ONNX's name of the type, in lower case."""
        return "float16" if self is HalfType.FP16 else "bfloat16"

    @property
    def elem_type(self) -> int:
        """``TensorProto.DataType`` of the type."""
        return 10 if self is HalfType.FP16 else 16

    @property
    def finite(self) -> float:
        """The largest finite value."""
        return 65504.0 if self is HalfType.FP16 else (2 - 2.0**-7) * 2.0**127

    @property
    def largest(self) -> float:
        """Largest measured magnitude of a tensor of this type; the factor of 4 is a reserve for data not measured."""
        return self.finite / 4

    @property
    def roundoff(self) -> float:
        """The largest relative error of a rounded normal value."""
        return 2.0**-11 if self is HalfType.FP16 else 2.0**-8

    @property
    def normal(self) -> float:
        """The smallest normal value. Smaller values have fewer bits, and hardware may flush them to zero."""
        return 2.0**-14 if self is HalfType.FP16 else 2.0**-126

    @property
    def tiniest(self) -> float:
        """The smallest value above zero."""
        return 2.0**-24 if self is HalfType.FP16 else 2.0**-133

    @property
    def integers(self) -> int:
        """The largest integer up to which every integer is a value."""
        return 2048 if self is HalfType.FP16 else 256


class Profile(enum.Enum):
    """The configuration of an ONNX Runtime session; :mod:`qdqtool.models.running.ort_cpu` describes each profile."""

    SEMANTIC = "semantic"
    UNPACKED = "unpacked"
    OPTIMIZED = "optimized"
    DEPLOYED = "deployed"
    LEAN = "lean"


class IoTypes(enum.Enum):
    """The types of the inputs and outputs: as in the model, one float type, or the codes behind Q and before DQ."""

    KEEP = "keep"
    FP16 = "fp16"
    BF16 = "bf16"
    FP32 = "fp32"
    QUANTIZED = "quantized"


_OPERATORS = Kind(form="operators", keyword="FileName", metavar="FILE.onnx")


@dataclass(init=False, repr=False, eq=False)
class OperatorOptions:
    """Options for operators that ONNX Runtime lacks."""

    ort_custom_ops: tuple[Path, ...] = option(
        (),
        "Load this library of operators into ONNX Runtime. It runs code: name only libraries that you trust; "
        "repeatable.",
        replace(_OPERATORS, keyword="Sequence[FileName]", metavar="LIB", is_repeated=True),
        section="Custom operators",
    )
    stand_in: Path | None = option(
        None,
        "Run the local functions of this file in place of unknown operators of the same name and domain. The written "
        "model does not get them.",
        _OPERATORS,
        section="Custom operators",
    )
