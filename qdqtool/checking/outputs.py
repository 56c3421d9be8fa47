"""Check the outputs of a model for NaN and infinities, and compare them with those of a baseline."""

from dataclasses import dataclass, field

import numpy as np

from qdqtool.checking.report import OutputResult
from qdqtool.errors import UsageError
from qdqtool.graph.index.model_index import ModelIndex
from qdqtool.graph.index.qdq import QdqNode
from qdqtool.graph.index.types import Shape
from qdqtool.graph.index.view import Value
from qdqtool.numerics.dtypes import Array
from qdqtool.numerics.granularity import expand
from qdqtool.numerics.metrics import max_steps
from qdqtool.running.accumulated_error import AccumulatedError
from qdqtool.running.own_nodes import granularity_of


@dataclass(slots=True)
class Deviation:
    """The distance of one output from another of the same shape, over all samples.

    Attributes:
        maker: The DQ that makes it; None without a DQ.
        scale: The scale of that DQ; None where it is not constant.
        max_steps: Largest distance in steps of the DQ.
        error: The accumulated error.
    """

    maker: QdqNode | None
    scale: Array | None
    max_steps: float | None = None
    error: AccumulatedError = field(default_factory=AccumulatedError)

    def add(self, expected: Array, found: Array) -> None:
        """Count one sample."""
        self.error.add(expected, found)
        if self.maker is not None and self.scale is not None and expected.shape == found.shape:
            step = expand(self.scale, found.shape, granularity_of(self.maker, self.scale))
            self.max_steps = max(self.max_steps or 0.0, max_steps(expected, found, step))

    @property
    def was_compared(self) -> bool:
        """Whether anything was compared: false where all samples had different shapes."""
        return bool(self.error.elements) or not self.error.other_shapes

    def result(self, name: str, nonfinite: int) -> OutputResult:
        """The line of the report."""
        return OutputResult(
            name=name,
            nonfinite=nonfinite,
            sqnr_db=self.error.sqnr_db,
            cosine=self.error.cosine,
            max_abs=self.error.max_abs,
            max_steps=self.max_steps,
            exact=self.error.exact,
        )


@dataclass(slots=True)
class OutputCheck:
    """One output over all samples.

    Attributes:
        value: The output.
        baseline: The baseline's output of that name; None without a baseline.
        maker: The DQ that makes it; None without a DQ.
        scale: The scale of that DQ; None where it is not constant.
        deviation: Distance from the baseline.
        shape: Its shape as the model declares it; None where the rank is unknown.
        is_float: Whether it held floats.
        nonfinite: Number of NaN and infinite elements.
    """

    value: Value
    baseline: Value | None
    maker: QdqNode | None
    scale: Array | None
    deviation: Deviation
    shape: Shape | None = None
    is_float: bool = False
    nonfinite: int = 0

    @property
    def nonfinite_as_in_baseline(self) -> bool:
        """Whether there is a baseline, and it has its NaN and infinities at the same places."""
        return self.baseline is not None and self.deviation.error.nonfinite_mismatches == 0

    def add(self, actual: Array | None, expected: Array | None) -> None:
        """Count one sample: the output, and the baseline's.

        Raises:
            UsageError: The baseline's output has another shape.
        """
        if actual is None or actual.dtype.kind not in "biufcV":
            return
        self.is_float = actual.dtype.kind in "fV"
        self.nonfinite += nonfinite_count(actual)
        if expected is None:
            return
        if expected.shape != actual.shape and not self._may_differ(expected.shape, actual.shape):
            raise UsageError(
                f"output '{self.value.name}' has shape {list(actual.shape)}, in the baseline {list(expected.shape)}",
                hint="the baseline must be the float model that was quantized",
            )
        self.deviation.add(expected, actual)

    def _may_differ(self, expected: tuple[int, ...], actual: tuple[int, ...]) -> bool:
        """Whether shapes differ only in open dimensions, whose extents may depend on the values."""
        shape = self.shape if self.shape is not None else (None,) * len(actual)
        return len(expected) == len(actual) == len(shape) and all(
            left == right or not isinstance(declared, int)
            for left, right, declared in zip(expected, actual, shape, strict=True)
        )

    def result(self) -> OutputResult:
        """The line of the report."""
        if self.baseline is None or not self.deviation.was_compared:
            return OutputResult(name=self.value.name, nonfinite=self.nonfinite)
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
    return OutputCheck(value, other, maker, scale, Deviation(maker, scale), index.types.shape(value))


def nonfinite_count(array: Array) -> int:
    """Return the number of elements that are NaN or infinite."""
    if array.dtype.kind not in "fcV":
        return 0
    return int(np.count_nonzero(~np.isfinite(array)))
