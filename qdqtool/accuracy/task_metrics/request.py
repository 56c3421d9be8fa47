"""Read the request for a task metric: ``NAME``, ``NAME:OUTPUT``, ``SCRIPT.py:func``, or a Python callable.

A function may compute a metric that is not a mean over samples, such as the mean average precision. So the outputs of
all samples are kept, and the function is called once for each model.
"""

import math
import numbers
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

from qdqtool.accuracy.report import ClassRecall, MetricResult
from qdqtool.accuracy.task_metrics import metrics
from qdqtool.accuracy.task_metrics.measure import Measure, NamedMeasure, RequestedMetric, Score, Tally
from qdqtool.errors import UsageError
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model
from qdqtool.models.running.own_evaluator import open_session
from qdqtool.models.running.own_support import plan_split
from qdqtool.numerics.dtypes import Array
from qdqtool.quantization.statistics.float_runs import FloatRuns, run_sample
from qdqtool.samples.feeds import Feeds
from qdqtool.samples.sample import NoLabelsError, Sample
from qdqtool.samples.script import UserFunction, load_function, split_script

MODEL, BASELINE, SAVED = "the model", "the baseline", "the saved outputs"
"""The sources of outputs that a metric compares."""


@dataclass(slots=True)
class MetricComparison:
    """A metric with its counts for each source of outputs.

    Attributes:
        measure: The metric.
        tallies: The counts, by :data:`MODEL`, :data:`BASELINE` or :data:`SAVED`.
    """

    measure: Measure
    tallies: dict[str, Tally] = field(default_factory=dict)

    def add(self, source: str, outputs: Mapping[str, Array], sample: Sample) -> None:
        """Count one run.

        Args:
            source: :data:`MODEL`, :data:`BASELINE` or :data:`SAVED`.
            outputs: Outputs by name; without the measured output, nothing is counted.
            sample: The inputs, with labels; padded rows of the outputs are left out.
        """
        if not outputs or (self.measure.output is not None and self.measure.output not in outputs):
            return
        if source not in self.tallies:
            self.tallies[source] = self.measure.tally(source)
        self.tallies[source].add(outputs, sample)

    def result(self) -> MetricResult:
        """Return the entry of a report."""
        scores = {source: tally.score() for source, tally in self.tallies.items()}
        return compared(self.measure, scores[MODEL], scores.get(BASELINE), scores.get(SAVED))


def compared(measure: Measure, score: Score, baseline: Score | None = None, saved: Score | None = None) -> MetricResult:
    """Return the entry of a report on a model."""
    return MetricResult(
        name=measure.name,
        output=measure.output,
        unit=measure.unit,
        loss_unit=measure.loss_unit,
        predictions=score.predictions,
        value=score.value,
        baseline=baseline.value if baseline is not None else None,
        loss=measure.loss(score.value, baseline.value) if baseline is not None else None,
        saved=saved.value if saved is not None else None,
        saved_loss=measure.loss(saved.value, score.value) if saved is not None else None,
        chance=score.chance,
        baseline_chance=baseline.chance if baseline is not None else None,
        distinct_predictions=score.distinct,
        classes=tuple(_recall(measure.name, score, baseline)),
    )


def _recall(name: str, score: Score, baseline: Score | None) -> Iterator[ClassRecall]:
    """Yield the recall of each class, the largest loss first."""
    before = baseline.classes if baseline is not None else {}
    losses = {label: before.get(label, (0, 0.0))[1] - value for label, (_, value) in score.classes.items()}
    for label in sorted(losses, key=lambda label: (-losses[label], label)):
        predictions, value = score.classes[label]
        reference = before[label][1] if label in before else None
        is_lost = reference is not None and losses[label] > metrics.get(name).large_loss(reference, predictions)
        yield ClassRecall(label=label, predictions=predictions, value=value, baseline=reference, is_lost=is_lost)


MetricFunction = Callable[[list[dict[str, Array]], list[Array | None]], float]
"""Gets the outputs by name and the labels of each sample (None without labels), and returns a number."""


@dataclass(frozen=True, slots=True)
class FunctionMeasure:
    """A function of the user as a metric.

    Attributes:
        function: The function.
        needs_labels: False: the function gets None if there are no labels.
        output: None: the function gets all outputs.
        unit: Empty: it is unknown.
        loss_unit: Empty, for the same reason.
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
        """Return this object, because the function gets all outputs of any model."""
        del outputs
        return self

    def tally(self, model: str) -> "FunctionTally":
        """Begin to keep outputs of a model."""
        return FunctionTally(self, model)

    def loss(self, value: float, reference: float) -> float:
        """Return the loss of ``value`` against ``reference``."""
        return reference - value

    def resolution(self, predictions: int) -> float | None:
        """Return None: the loss of one prediction is unknown."""
        del predictions
        return None


@dataclass(slots=True)
class FunctionTally:
    """The outputs of one model so far.

    Attributes:
        measure: The metric.
        model: The name of the model in messages.
        outputs: Outputs by name, for each sample, without padded rows.
        labels: The labels of each sample.
    """

    measure: FunctionMeasure
    model: str
    outputs: list[dict[str, Array]] = field(default_factory=list)
    labels: list[Array | None] = field(default_factory=list)

    def add(self, outputs: Mapping[str, Array], sample: Sample) -> None:
        """Keep the outputs of one run."""
        # copy(): an array of a session keeps all memory of the run alive, and the function may write into its
        # arguments.
        self.outputs.append({name: sample.without_filler(array).copy() for name, array in outputs.items()})
        self.labels.append(None if sample.labels is None else sample.labels.copy())

    def score(self) -> Score:
        """Call the function, and return its result."""
        function = self.measure.function
        with function.running():
            found = function.function(self.outputs, self.labels)
        return Score(value=self._number(found), predictions=len(self.outputs))

    def _number(self, found: object) -> float:
        if isinstance(found, np.ndarray) and not found.ndim and found.dtype.kind in "iuf":
            found = found.item()
        if not isinstance(found, numbers.Real) or isinstance(found, bool | np.bool_):
            raise self._refusal(_describe(found))
        if not math.isfinite(found):
            raise self._refusal(f"{float(found):g}")
        # A negative zero, such as a negated mean of 0, is shown as 0.
        return float(found) + 0.0

    def _refusal(self, found: str) -> UsageError:
        function = self.measure.function
        line = f" (line {function.line})" if function.line is not None else ""
        return UsageError(
            f"{function.where}{line} returned {found} for {self.model}; it must return one finite number, higher where "
            "the model is better"
        )


def _describe(found: object) -> str:
    if isinstance(found, np.ndarray):
        return f"an array of {found.dtype} {list(found.shape)}"
    return f"a {type(found).__name__}" if found is not None else "None"


MetricRequest = str | MetricFunction
"""The value of ``--metric``, or of the keyword."""


def load_metric(request: MetricRequest) -> RequestedMetric:
    """Return the requested metric. A script is executed at once.

    Raises:
        UsageError: The script is missing or fails, or the function is not named or not in the script.
    """
    if not isinstance(request, str):
        return FunctionMeasure(UserFunction.of(request))
    script = split_script(request)
    if script is None:
        return NamedMeasure.of(request)
    file, name = script
    if not name:
        raise UsageError(
            f"--metric {request}: which function of the script?", hint=f"`--metric {shlex.quote(request)}:FUNCTION`"
        )
    return FunctionMeasure(load_function(file, name, "taking the outputs and the labels of all samples"))


def labelled_for(metric: RequestedMetric, feeds: Feeds) -> Feeds:
    """Return samples with labels; if there are none and the metric does not need them, samples without labels."""
    if metric.needs_labels:
        return feeds.with_labels()
    with suppress(NoLabelsError):
        return feeds.with_labels()
    return feeds


@dataclass(slots=True, eq=False)
class MetricMeasurement:
    """A task metric on the measurement samples. The float model is run once for all quantized models."""

    metric: RequestedMetric
    _float: Score | None = None

    @classmethod
    def asked(cls, request: MetricRequest | None) -> "MetricMeasurement | None":
        """Return the metric that the user requests, or None; a script is executed at once."""
        return None if request is None else cls(load_metric(request))

    def of(self, before: Model, after: Model, feeds: Feeds, runs: FloatRuns) -> MetricResult:
        """Measure a quantized model on all samples, and the float model if it was not measured before."""
        samples = labelled_for(self.metric, feeds)
        measure = self.metric.measure(ModelIndex.of(before).view.main.output_names())
        if self._float is None:
            self._float = score_of(measure, _float_outputs(before, samples, runs), "the float model")
        # Only one model is in memory.
        runs.close()
        score = score_of(measure, _quantized_outputs(after, samples), "the quantized model")
        return compared(measure, score, self._float)


def score_of(measure: Measure, runs: Iterable[tuple[Sample, Mapping[str, Array]]], model: str) -> Score:
    """Return the metric of a model.

    Args:
        measure: The metric.
        runs: Each sample with the outputs of the model.
        model: The name of the model in messages, such as ``the float model``.
    """
    tally = measure.tally(model)
    for sample, outputs in runs:
        tally.add(outputs, sample)
    return tally.score()


def _float_outputs(model: Model, feeds: Feeds, runs: FloatRuns) -> Iterator[tuple[Sample, Mapping[str, Array]]]:
    main = runs.index_of(model).view.main
    values = [main.values[name] for name in main.output_names()]
    observer = runs.observer(model, values)
    for number, sample in enumerate(feeds):
        run = run_sample(observer, sample, number, feeds)
        found = {value.name: observer.output(run, value) for value in values}
        yield sample, {name: array for name, array in found.items() if array is not None}


def _quantized_outputs(model: Model, feeds: Feeds) -> Iterator[tuple[Sample, Mapping[str, Array]]]:
    with open_session(model, plan_split(ModelIndex.of(model))) as session:
        for sample in feeds:
            yield sample, session.run(sample)
