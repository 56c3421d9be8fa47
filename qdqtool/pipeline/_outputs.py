"""The outputs of a model: finite or not, and how far from a baseline's."""

from dataclasses import dataclass, field

import numpy as np

from qdqtool.errors import UsageError
from qdqtool.graph.qdq import QdqNode
from qdqtool.graph.taps import Tap
from qdqtool.graph.view import Value
from qdqtool.numerics.dtypes import Array
from qdqtool.numerics.granularity import expand
from qdqtool.numerics.metrics import max_steps
from qdqtool.pipeline._observe import Facts, Observer, Run
from qdqtool.pipeline._own_core import granularity_of
from qdqtool.pipeline._running_error import RunningError
from qdqtool.pipeline.check_report import OutputResult


@dataclass(slots=True)
class OutputCheck:
    """One output over all samples.

    Attributes:
        value: The output.
        baseline: The baseline's output of that name; None without a baseline.
        maker: The DQ that makes it, if one does and its scale is constant.
        scale: The scale of that DQ.
        is_float: Whether it held floats.
        nonfinite: NaN and infinite elements.
        baseline_nonfinite: The same of the baseline.
        max_steps: Largest distance in steps of the DQ.
        error: Distance from the baseline.
    """

    value: Value
    baseline: Value | None
    maker: QdqNode | None
    scale: Array | None
    is_float: bool = False
    nonfinite: int = 0
    baseline_nonfinite: int = 0
    max_steps: float | None = None
    error: RunningError = field(default_factory=RunningError)

    def add(self, observer: Observer, run: Run, other: Observer | None, floats: Run) -> None:
        """Count one sample.

        Raises:
            UsageError: The baseline's output has another shape.
        """
        tap = Tap(self.value.name)
        actual = observer.at(run, self.value, tap, ())
        if actual is None or actual.dtype.kind not in "biufcV":
            return
        self.is_float = actual.dtype.kind in "fV"
        self.nonfinite += _nonfinite(actual)
        expected = other.at(floats, self.baseline, tap, ()) if other is not None and self.baseline is not None else None
        if expected is None:
            return
        if expected.shape != actual.shape:
            raise UsageError(
                f"output '{self.value.name}' has shape {list(actual.shape)}, in the baseline {list(expected.shape)}",
                hint="the baseline must be the float model that was quantized",
            )
        self.baseline_nonfinite += _nonfinite(expected)
        self.error.add(expected, actual)
        if self.maker is not None and self.scale is not None:
            step = expand(self.scale, actual.shape, granularity_of(self.maker, self.scale))
            self.max_steps = max(self.max_steps or 0.0, max_steps(expected, actual, step))

    def result(self) -> OutputResult:
        """The line of the report."""
        if self.baseline is None:
            return OutputResult(name=self.value.name, nonfinite=self.nonfinite)
        return OutputResult(
            name=self.value.name,
            nonfinite=self.nonfinite,
            sqnr_db=self.error.sqnr_db,
            cosine=self.error.cosine,
            max_abs=self.error.max_abs,
            max_steps=self.max_steps,
            exact=self.error.exact,
        )


def output_checks(facts: Facts, baseline: Facts | None) -> list[OutputCheck]:
    """One empty check for each output.

    Raises:
        UsageError: The baseline has other outputs.
    """
    names = list(dict.fromkeys(facts.view.main.output_names()))
    if baseline is not None and set(names) != set(baseline.view.main.output_names()):
        others = ", ".join(baseline.view.main.output_names())
        raise UsageError(
            f"model and baseline have different outputs: {', '.join(names)} against {others}",
            hint="the baseline must be the float model that was quantized",
        )
    return [_output_check(facts, baseline, name) for name in names]


def _output_check(facts: Facts, baseline: Facts | None, name: str) -> OutputCheck:
    value = facts.view.main.values[name]
    maker = facts.qdq.dequantizer_of(value)
    scale = facts.constant(maker.scale) if maker is not None and maker.scale is not None else None
    return OutputCheck(value, baseline.view.main.values[name] if baseline is not None else None, maker, scale)


def _nonfinite(array: Array) -> int:
    if array.dtype.kind not in "fcV":
        return 0
    return int(np.count_nonzero(~np.isfinite(array)))
