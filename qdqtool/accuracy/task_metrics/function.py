"""Measure with a function of the user: ``func(outputs, labels)`` of all samples at once; higher is better.

Metrics such as the mean average precision are no mean over samples, so the outputs of all samples are kept until the
function is called, once for each model.
"""

import math
import numbers
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from qdqtool.accuracy.task_metrics.measure import Score
from qdqtool.errors import UsageError
from qdqtool.numerics.dtypes import Array
from qdqtool.samples import Sample
from qdqtool.samples.script import UserFunction

MetricFunction = Callable[[list[dict[str, Array]], list[Array | None]], float]
"""Takes the outputs by name and the labels of each sample (None without labels), and gives a number."""


@dataclass(frozen=True, slots=True)
class FunctionMeasure:
    """A function of the user as a metric.

    Attributes:
        function: The function.
        needs_labels: False: the function gets None for them where there are none.
        output: None: the function gets all outputs.
        unit: Empty: nobody knows it.
        loss_unit: Empty likewise.
    """

    function: UserFunction
    needs_labels: bool = False
    output: str | None = None
    unit: str = ""
    loss_unit: str = ""

    @property
    def name(self) -> str:
        """The name of the function."""
        return self.function.name

    def measure(self, outputs: Sequence[str]) -> "FunctionMeasure":
        """Return this: the function fits models with any outputs."""
        del outputs
        return self

    def tally(self, model: str) -> "FunctionTally":
        """Begin to keep outputs of a model."""
        return FunctionTally(self, model)

    def loss(self, value: float, reference: float) -> float:
        """Return the loss of ``value`` against ``reference``."""
        return reference - value

    def resolution(self, predictions: int) -> float | None:
        """Return None: nobody knows what one prediction makes."""
        del predictions
        return None


@dataclass(slots=True)
class FunctionTally:
    """The outputs of one model so far.

    Attributes:
        measure: The metric.
        model: What messages call the model.
        outputs: Outputs by name, for each sample, without padded rows.
        labels: The labels of each sample.
    """

    measure: FunctionMeasure
    model: str
    outputs: list[dict[str, Array]] = field(default_factory=list)
    labels: list[Array | None] = field(default_factory=list)

    def add(self, outputs: Mapping[str, Array], sample: Sample) -> None:
        """Keep the outputs of one run."""
        # copy(): an array of a session keeps all memory of the run alive, and the function may write into what it gets.
        self.outputs.append({name: sample.without_filler(array).copy() for name, array in outputs.items()})
        self.labels.append(None if sample.labels is None else sample.labels.copy())

    def score(self) -> Score:
        """Call the function; errors as :meth:`qdqtool.accuracy.task_metrics.measure.Tally.score`."""
        function = self.measure.function
        with function.running():
            found = function.function(self.outputs, self.labels)
        return Score(value=self._number(found), predictions=len(self.outputs))

    def _number(self, found: object) -> float:
        if isinstance(found, np.ndarray) and not found.ndim and found.dtype.kind in "iuf":
            found = found.item()
        if not isinstance(found, numbers.Real) or isinstance(found, bool | np.bool_):
            raise self._refusal(_told(found))
        if not math.isfinite(found):
            raise self._refusal(f"{float(found):g}")
        # A negative zero, as that of a negated mean, is shown as 0.
        return float(found) + 0.0

    def _refusal(self, found: str) -> UsageError:
        function = self.measure.function
        line = f" (line {function.line})" if function.line is not None else ""
        return UsageError(
            f"{function.where}{line} returned {found} for {self.model}; it must return one finite number, higher where "
            "the model is better"
        )


def _told(found: object) -> str:
    if isinstance(found, np.ndarray):
        return f"an array of {found.dtype} {list(found.shape)}"
    return f"a {type(found).__name__}" if found is not None else "None"
