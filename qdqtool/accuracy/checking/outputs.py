"""Check the outputs of a model for NaN and infinities, and compare them with the outputs of a baseline.

The SQNR does not show that an output ignores the samples, since its signal contains the part that all samples share. A
constant output reaches 0.5 dB after a Softmax over 10 classes, and 50 dB if a large bias is added last.
"""

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from qdqtool.accuracy.checking.report import OutputResult
from qdqtool.accuracy.checking.sample_errors import ChannelErrors, SampleErrors, SampleOrigin
from qdqtool.errors import UsageError
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.graph.index.types import Shape
from qdqtool.models.graph.index.view import Value
from qdqtool.models.running.accumulated_error import AccumulatedError, max_steps, ratio_db
from qdqtool.models.running.own_nodes import granularity_of
from qdqtool.numerics.dtypes import FLOAT64, Array
from qdqtool.numerics.granularity import expand


@dataclass(slots=True)
class Variation:
    """How much an output and its reference vary over samples of equal shape.

    Attributes:
        samples: Number of samples that were counted.
        is_known: Whether all samples of the reference had one shape and finite values.
        is_constant: Whether the output was the same in all samples, bit for bit.
        is_zero: Whether the output was 0 everywhere.
        first: The output in the first sample.
        total: Sum of the reference over the samples, by element.
        squares: ``sum(a**2)`` of the reference ``a``, over all samples and elements.
        channels: The errors by channel.
    """

    samples: int = 0
    is_known: bool = True
    is_constant: bool = True
    is_zero: bool = True
    first: Array | None = None
    total: Array | None = None
    squares: float = 0.0
    channels: list[ChannelErrors] = field(default_factory=list)

    def add(self, reference: Array, found: Array) -> None:
        """Count one sample of two arrays of equal shape."""
        a = reference.astype(FLOAT64)
        if self.first is None or self.total is None:
            self.first, self.total, self.channels = found.copy(), np.zeros_like(a), ChannelErrors.of(a.shape)
        self.is_known &= self.total.shape == a.shape and bool(np.isfinite(a).all())
        self.is_constant &= np.array_equal(self.first, found)
        self.is_zero &= not found.any()
        if self.is_known:
            self.samples += 1
            self.total += a
            squares, changes = a * a, found != self.first
            self.squares += float(np.sum(squares))
            difference = np.nan_to_num(a - found.astype(FLOAT64), nan=0.0, posinf=0.0, neginf=0.0)
            for channel in self.channels:
                channel.add(squares, difference, changes)

    def lost_part(self, limit: float, negligible: float) -> str:
        """Return which channels are lost; empty if none are: see :meth:`ChannelErrors.lost`."""
        if self.total is None or not self.is_known:
            return ""
        constant = self.total * self.total / self.samples
        return next(filter(None, (each.lost(constant, limit, negligible) for each in self.channels)), "")

    @property
    def reference(self) -> float | None:
        """``sum((a - mean(a))**2)`` with the mean of each element over the samples.

        This is the smallest squared error of an output that is the same in all samples. None for fewer than two
        samples, different shapes or values that are not finite.
        """
        if not self.is_known or self.samples < 2 or self.total is None:
            return None
        return max(0.0, self.squares - float(np.sum(self.total * self.total)) / self.samples)

    @property
    def reference_db(self) -> float | None:
        """Ratio of the power of the reference to that of its varying part, in dB; None if that part is unknown or 0."""
        return None if self.reference is None else ratio_db(self.squares, self.reference)


FLOATS = "fcV"
"""Kinds of arrays of floats; V stands for the types that NumPy lacks."""

NUMBERS = "biu" + FLOATS
COMPARED = NUMBERS + "OUS"
"""Kinds of arrays that can be compared: numbers and strings."""


@dataclass(slots=True)
class Agreement:
    """How many elements of integer, boolean or string outputs are equal, over all samples.

    Attributes:
        elements: Number of elements that were compared.
        equal: Number of equal elements.
        expected: Number of elements of the reference with each value.
        found: Number of elements of the other output with each value.
    """

    elements: int = 0
    equal: int = 0
    expected: Counter[object] = field(default_factory=Counter)
    found: Counter[object] = field(default_factory=Counter)

    def add(self, expected: Array, found: Array) -> None:
        """Count one sample of equal shapes."""
        self.elements += expected.size
        self.equal += int(np.count_nonzero(expected == found))
        for counter, array in ((self.expected, expected), (self.found, found)):
            values, counts = np.unique(array, return_counts=True)
            counter.update(dict(zip(values.tolist(), counts.tolist(), strict=True)))

    @property
    def share(self) -> float | None:
        """Share of the elements that are equal; None without elements."""
        return self.equal / self.elements if self.elements else None

    @property
    def chance(self) -> float:
        """The share that would be equal if the same values were at random places."""
        both = sum(count * self.found[value] for value, count in self.expected.items())
        return both / max(1, self.elements) ** 2


@dataclass(slots=True)
class Deviation:
    """The distance of one output from another of the same shape, over all samples.

    Attributes:
        maker: The DQ that makes the output; None without a DQ.
        scale: The scale of that DQ; None if it is not constant.
        max_steps: Largest distance in steps of the DQ.
        error: The accumulated error; without elements for strings.
        agreement: Counts of equal elements, for outputs that are not floats.
        variation: How floats vary over the samples.
        samples: The errors of single samples, for float outputs.
        shapes: The two shapes in the first sample where they differ, the reference's last; None if they never differ.
    """

    maker: QdqNode | None
    scale: Array | None
    max_steps: float | None = None
    error: AccumulatedError = field(default_factory=AccumulatedError)
    agreement: Agreement = field(default_factory=Agreement)
    variation: Variation = field(default_factory=Variation)
    samples: SampleErrors = field(default_factory=SampleErrors)
    shapes: tuple[tuple[int, ...], tuple[int, ...]] | None = None

    def add(self, expected: Array, found: Array, origin: SampleOrigin) -> None:
        """Count one sample."""
        if expected.shape != found.shape:
            self.shapes = self.shapes or (found.shape, expected.shape)
        if expected.shape == found.shape:
            counted = self.variation if expected.dtype.kind in FLOATS else self.agreement
            counted.add(expected, found)
        if expected.dtype.kind not in NUMBERS:
            self.error.other_shapes += expected.shape != found.shape
            return
        error = AccumulatedError.of(expected, found)
        self.error.include(error)
        if expected.dtype.kind in FLOATS:
            self.samples.add(error, origin)
        if self.maker is not None and self.scale is not None and expected.shape == found.shape:
            step = expand(self.scale, found.shape, granularity_of(self.maker, self.scale))
            self.max_steps = max(self.max_steps or 0.0, max_steps(expected, found, step))

    @property
    def was_compared(self) -> bool:
        """Whether anything was compared: false where all samples had different shapes, or no elements."""
        return bool(self.error.elements or self.agreement.elements)

    @property
    def exact(self) -> bool:
        """Whether all elements and all shapes are equal."""
        return self.error.exact and self.agreement.equal == self.agreement.elements

    def result(self, name: str, nonfinite: int) -> OutputResult:
        """The line of the report."""
        if not self.was_compared:
            others = self.error.other_shapes
            return OutputResult(name=name, nonfinite=nonfinite, other_shapes=others, differing_shapes=self.shapes)
        return OutputResult(
            name=name,
            nonfinite=nonfinite,
            agreement=self.agreement.share,
            zero_reference=self.error.signal == 0 and not self.agreement.elements,
            other_shapes=self.error.other_shapes,
            differing_shapes=self.shapes,
            sqnr_db=self.error.sqnr_db,
            cosine=self.error.cosine,
            max_abs=self.error.max_abs,
            max_steps=self.max_steps,
            exact=self.exact,
            worst_samples=tuple(self.samples.worst),
            sample_sqnr=self.samples.distribution(),
        )


@dataclass(slots=True)
class OutputCheck:
    """One output over all samples.

    Attributes:
        value: The output.
        baseline: The baseline's output of that name; None without a baseline.
        deviation: Distance from the baseline.
        shape: Its shape in the model; None if the rank is unknown.
        nonfinite: Number of NaN and infinite elements.
    """

    value: Value
    baseline: Value | None
    deviation: Deviation
    shape: Shape | None = None
    nonfinite: int = 0

    @property
    def nonfinite_as_in_baseline(self) -> bool:
        """Whether there is a baseline that has NaN and infinities at the same places."""
        return self.baseline is not None and self.deviation.error.nonfinite_mismatches == 0

    def is_worst(self, number: int) -> bool:
        """Whether no sample so far is further from the baseline."""
        return [each.number for each in self.deviation.samples.worst[:1]] == [number]

    def add(self, actual: Array | None, expected: Array | None, origin: SampleOrigin) -> None:
        """Count one sample: the output, and the baseline's.

        Args:
            actual: The output; None if it could not be read.
            expected: The baseline's output; None without a baseline.
            origin: Where the sample comes from.

        Raises:
            UsageError: The baseline's output has another shape.
        """
        if actual is None or actual.dtype.kind not in COMPARED:
            return
        self.nonfinite += nonfinite_count(actual)
        if expected is None:
            return
        if expected.shape != actual.shape and not self._may_differ(expected.shape, actual.shape):
            raise UsageError(
                f"output '{self.value.name}' has shape {list(actual.shape)}, in the baseline {list(expected.shape)}",
                hint="the baseline must be the float model that was quantized",
            )
        self.deviation.add(expected, actual, origin)

    def _may_differ(self, expected: tuple[int, ...], actual: tuple[int, ...]) -> bool:
        """Whether shapes differ only in open dimensions, whose extents may depend on the values."""
        shape = self.shape if self.shape is not None else (None,) * len(actual)
        return len(expected) == len(actual) == len(shape) and all(
            left == right or not isinstance(declared, int)
            for left, right, declared in zip(expected, actual, shape, strict=True)
        )

    def result(self) -> OutputResult:
        """The line of the report."""
        return self.deviation.result(self.value.name, self.nonfinite)


def output_checks(index: ModelIndex, baseline: ModelIndex | None) -> list[OutputCheck]:
    """Make one empty check for each output.

    Raises:
        UsageError: The baseline has other outputs.
    """
    names = list(dict.fromkeys(index.view.main.output_names()))
    if baseline is not None and set(names) != set(baseline.view.main.output_names()):
        others = ", ".join(baseline.view.main.output_names())
        raise UsageError(
            f"model and baseline have different outputs: {', '.join(names)} against {others}",
            hint="the baseline must be the float model that was quantized",
        )
    return [_output_check(index, baseline, name) for name in names]


def _output_check(index: ModelIndex, baseline: ModelIndex | None, name: str) -> OutputCheck:
    value = index.view.main.values[name]
    maker = index.qdq.dequantizer_of(value)
    scale = index.constant(maker.scale) if maker is not None and maker.scale is not None else None
    other = baseline.view.main.values[name] if baseline is not None else None
    return OutputCheck(value, other, Deviation(maker, scale), index.types.shape(value))


def nonfinite_count(array: Array) -> int:
    """Return the number of elements that are NaN or infinite."""
    if array.dtype.kind not in "fcV":
        return 0
    return int(np.count_nonzero(~np.isfinite(array)))
