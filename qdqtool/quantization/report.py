"""The changes of a model by quantization, as data: pairs, ranges, scales, poorly represented tensors, float16."""

import re
from dataclasses import dataclass
from typing import Literal

from qdqtool.models.graph.report import NodeReason


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenReport:
    """How a range file of another tool was used.

    Attributes:
        source: The file.
        format: Id of the file format (:mod:`qdqtool.quantization.ranges.encodings`).
        mode: The quantize mode in which the file was used.
        tensors: Number of tensors in the file.
        weights: Number of constants that got their scales from the file; set when the plan is made.
        unknown: Tensors of the file that the model does not have.
        notes: Statements of the file that could not be followed.
    """

    source: str
    format: str
    mode: str
    tensors: int
    weights: int = 0
    unknown: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizedTensor:
    """One Q/DQ pair that was inserted.

    Attributes:
        tensor: Name of the float tensor.
        graph: Scope of the tensor; empty for the main graph.
        kind: ``weight`` for a constant, else ``activation``.
        format: Number format.
        granularity: The granularity of the scales, in words.
        scales: Number of scales.
        scale_min: Smallest scale.
        scale_max: Largest scale.
        consumers: Labels of the nodes that read the dequantized tensor.
        reason: The reason in the plan.
    """

    tensor: str
    graph: str
    kind: str
    format: str
    granularity: str
    scales: int
    scale_min: float
    scale_max: float
    consumers: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodRange:
    """The range that a calibration method chooses for an activation.

    Attributes:
        method: Id of the method.
        range: The magnitude that the largest code represents.
        clipped: Share of the values with a larger magnitude, 0 to 1, with 4 significant digits.
    """

    method: str
    range: float
    clipped: float


_COUNTS = re.compile(r"(\d{1,18}(\*\d{1,2})?( |$))*")


@dataclass(frozen=True, slots=True, kw_only=True)
class MagnitudeHistogram:
    """The magnitudes of an activation.

    Attributes:
        bin_width: Width of a bin, a power of two: bin i counts ``i * bin_width <= |x| < (i + 1) * bin_width``. 0 if
            every value is 0.
        counts: The exact counts of at most 64 bins: ``3 0*40 17`` for 3, forty zeros, 17.
        zeros: Number of zeros, which are not counted in any bin.
        beyond: Number of values above the last bin.
    """

    bin_width: float
    counts: str
    zeros: int
    beyond: int

    def __post_init__(self) -> None:
        if len(self.counts) > 2000 or not _COUNTS.fullmatch(self.counts):
            raise ValueError(f"counts of another form: {self.counts[:40]!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivationRange:
    """The range of one quantized activation.

    Attributes:
        tensor: Name of the activation.
        graph: Scope of the activation; empty for the main graph.
        format: Number format of the activation.
        min: The smallest value on the calibration data; with a range file of another tool, the lower end of the range.
        max: The largest value on the calibration data; with a range file of another tool, the upper end of the range.
        values: Number of values on the calibration data; None if another tool gave the range.
        range: The magnitude that the largest code represents.
        clipped: Share of the values with a larger magnitude, as for a method; None if unknown.
        method: Id of the calibration method that found the range; ``bound`` if no value can be larger, and ``given`` if
            another tool gave the range.
        reason: The reason in a few words.
        shared: Whether the range comes from another tensor with the same scale, which has larger values.
        methods: The range that each calibration method would choose from the values; empty if only a range is known.
        histogram: The magnitudes of the activation; None if they were not counted.
    """

    tensor: str
    graph: str
    format: str
    min: float
    max: float
    values: int | None
    range: float
    clipped: float | None
    method: str
    reason: str
    shared: bool
    methods: tuple[MethodRange, ...]
    histogram: MagnitudeHistogram | None


_NUMBERS = re.compile(r"(\d+(\.\d+)?(e[+-]\d+)?( |$))*")


def _is_numbers(text: str) -> bool:
    return len(text) <= 4000 and _NUMBERS.fullmatch(text) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightScales:
    """The scales by channel of one weight that has more than one scale.

    Attributes:
        tensor: Name of the weight.
        graph: Scope of the weight; empty for the main graph.
        format: Number format of the weight.
        axis: The axis of the channels: the axis of the scales; with blocks, the unblocked axis with the most scales.
        channels: Number of channels.
        grouped: Neighboring channels that share a point; the last point may have fewer.
        smallest: The smallest magnitude of the scales in each point, with 4 significant digits: ``0.01 0.0125``. It is
            0 if all weights of a channel of the point are 0, because the scale of this channel means nothing. Scales of
            blocks whose weights are all 0 mean nothing either, and are left out.
        largest: The largest magnitude of the scales in each point; 0 if the weights of all its channels are 0. Empty if
            it equals ``smallest`` everywhere.
        dead: Number of channels in which all weights are 0.
    """

    tensor: str
    graph: str
    format: str
    axis: int
    channels: int
    grouped: int
    smallest: str
    largest: str
    dead: int

    def __post_init__(self) -> None:
        wrong = next((text for text in (self.smallest, self.largest) if not _is_numbers(text)), None)
        if wrong is not None:
            raise ValueError(f"scales of another form: {wrong[:40]!r}")


Condition = Literal["zeros", "tiny", "constant", "mask", "strays"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DegenerateTensor:
    """One tensor or weight that no scale represents well.

    Attributes:
        tensor: Name of the tensor or weight.
        graph: Scope of the tensor; empty for the main graph.
        kind: ``weight`` or ``activation``.
        condition: ``zeros`` (all values are 0), ``tiny`` (too small for a scale), ``constant`` (always the same value),
            ``mask`` (values that represent minus infinity, among others) or ``strays`` (outliers: few values far from
            the others).
        scales: Number of affected scales.
        of: Number of all scales of the tensor.
        scale: The value of the affected scales.
        action: What was done, in words.
    """

    tensor: str
    graph: str
    kind: str
    condition: Condition
    scales: int
    of: int
    scale: float
    action: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HighPrecisionReport:
    """The result of the conversion of the float nodes of a model.

    Attributes:
        dtype: The half-precision type, ``fp16`` or ``bf16``.
        nodes: Number of nodes, other than Q and DQ, that compute in this type now.
        kept: Nodes that compute in float32.
        casts: Number of Cast nodes that were added.
        measured: Number of tensors that were measured, to see whether their values fit; 0 without data.
        random: Whether they were measured on random inputs.
        note: Why nothing was converted; empty if something was converted.
    """

    dtype: str
    nodes: int = 0
    kept: tuple[NodeReason, ...] = ()
    casts: int = 0
    measured: int = 0
    random: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorAccuracy:
    """The error of one pair on its own tensor, with every other tensor still float.

    Attributes:
        tensor: Name of the tensor.
        graph: Its scope; empty for the main graph.
        kind: ``weight`` or ``activation``.
        sqnr_db: SQNR of the values after the pair against the values before it, in dB.
    """

    tensor: str
    graph: str
    kind: str
    sqnr_db: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ZeroedTensor:
    """An activation with nearly all values rounded to 0; a few large values can hide that in its SQNR.

    Attributes:
        tensor: Name of the tensor.
        graph: Its scope; empty for the main graph.
        share: Share of its nonzero values that its pair rounds to 0.
        scale: The scale of the pair.
    """

    tensor: str
    graph: str
    share: float
    scale: float
