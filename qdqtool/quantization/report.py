"""What quantizing puts into a model, as data: pairs, ranges and scales, what no scale serves, half precision."""

import re
from dataclasses import dataclass
from typing import Literal

from qdqtool.models.graph.report import NodeReason


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenReport:
    """The use that was made of a range file of another tool.

    Attributes:
        source: The file.
        format: Id of its format (:mod:`qdqtool.quantization.ranges.encodings`).
        mode: The quantize mode for which it was used.
        tensors: How many tensors it names.
        weights: How many constants got the scales that it has for them; known when the plan is made.
        unknown: Those that the model does not have.
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
        graph: Its scope; empty for the main graph.
        kind: ``weight`` for a constant, else ``activation``.
        format: Number format.
        granularity: The granularity of its scales, in words.
        scales: Number of scales.
        scale_min: Smallest scale.
        scale_max: Largest scale.
        consumers: Labels of the nodes that read the dequantized tensor.
        reason: The reason that the plan states.
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
        range: The magnitude that the largest code stands for.
        clipped: Share of the values whose magnitude is larger, 0 to 1, with 4 significant digits.
    """

    method: str
    range: float
    clipped: float


_COUNTS = re.compile(r"(\d{1,18}(\*\d{1,2})?( |$))*")


@dataclass(frozen=True, slots=True, kw_only=True)
class MagnitudeHistogram:
    """The magnitudes of an activation.

    Attributes:
        bin_width: Width of a bin, a power of two: bin i counts ``i * bin_width <= |x| < (i + 1) * bin_width``. 0 where
            every value is 0.
        counts: The counts of at most 64 bins, exact: ``3 0*40 17`` for 3, forty zeros, 17.
        zeros: Number of zeros, which no bin has.
        beyond: Number of values behind the last bin.
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
        tensor: Its name.
        graph: Its scope; empty for the main graph.
        format: Its number format.
        min: The smallest value on the calibration data; with a range file of another tool, the lower end of the range.
        max: The largest value on the calibration data; with a range file of another tool, the upper end of the range.
        values: Number of values on the calibration data; None where another tool gave the range.
        range: The magnitude that the largest code stands for.
        clipped: Share of the values whose magnitude is larger, as for a method; None where that is not known.
        method: Id of the calibration method that found the range; ``bound`` where no value can be larger, and ``given``
            where another tool gave it.
        reason: The reason in a few words.
        shared: Whether it is the range of another tensor with the same scale, which has larger values.
        methods: What each calibration method would choose from the same values; empty where only a range is known.
        histogram: Its magnitudes; None where they were not counted.
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
    """The scales of one weight with several of them, by channel.

    Attributes:
        tensor: Its name.
        graph: Its scope; empty for the main graph.
        format: Its number format.
        axis: The axis of the channels: that of the scales; with blocks, of the other axes the one with the most scales.
        channels: Number of channels.
        grouped: Neighbouring channels in a point; the last point may have fewer.
        smallest: The smallest magnitude of the scales in each point, with 4 significant digits: ``0.01 0.0125``. It is
            0 where all weights of a channel of the point are 0, since its scale means nothing. Scales of blocks whose
            weights are all 0 mean nothing either, and are left out.
        largest: The largest one; 0 where all channels of the point are such; empty where it is everywhere the smallest.
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
        tensor: Its name.
        graph: Its scope; empty for the main graph.
        kind: ``weight`` or ``activation``.
        condition: ``zeros`` (all values are 0), ``tiny`` (too small for a scale), ``constant`` (always the same value),
            ``mask`` (values that represent minus infinity, among others) or ``strays`` (few values far from the
            others).
        scales: How many of its scales are concerned.
        of: How many scales it has.
        scale: The value of those scales.
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
        dtype: The requested type, ``fp16``.
        nodes: How many nodes compute in float16 now, apart from Q and DQ.
        kept: Those that compute in float32.
        casts: How many Cast nodes were added.
        measured: How many tensors were measured, to see whether float16 holds their values; 0 without data.
        note: Why nothing was converted; empty where something was.
    """

    dtype: str
    nodes: int = 0
    kept: tuple[NodeReason, ...] = ()
    casts: int = 0
    measured: int = 0
    note: str = ""
