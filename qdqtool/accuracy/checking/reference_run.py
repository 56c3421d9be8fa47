"""Run a check: every sample through the model and its baseline, then the Q and DQ nodes with constant inputs."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass

from qdqtool.accuracy.checking.boundaries import Boundary, bounds_of, find_boundaries
from qdqtool.accuracy.checking.options import CheckOptions
from qdqtool.accuracy.checking.outputs import OutputCheck, output_checks
from qdqtool.accuracy.checking.pair_error import PairError, leads_to_softmax
from qdqtool.accuracy.checking.qdq_reference import ConstantNodes, NodeCheck, compare, described, format_of, inputs_of
from qdqtool.accuracy.checking.repeatable import Runs, unrepeated
from qdqtool.accuracy.checking.report import BoundaryResult, OutputResult, SavedOutputs
from qdqtool.accuracy.checking.sample_errors import SampleOrigin
from qdqtool.accuracy.checking.saved_outputs import OutputSinks
from qdqtool.accuracy.layers.baseline_matcher import BaselineMatcher
from qdqtool.accuracy.layers.float_form import SAMPLES, FloatForm, compare_float_form
from qdqtool.accuracy.report import MetricResult
from qdqtool.accuracy.task_metrics.measure import RequestedMetric
from qdqtool.errors import ArgumentError
from qdqtool.models.graph.index.calls import nodes_with_several_values
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.graph.index.view import Value
from qdqtool.models.options import Profile
from qdqtool.models.running.nonfinite import first_nonfinite
from qdqtool.models.running.observer import Observer, Run
from qdqtool.models.running.ort_errors import RunError
from qdqtool.models.running.own_support import plan_split
from qdqtool.numerics.dtypes import Array
from qdqtool.samples.feeds import Feeds, Progress
from qdqtool.samples.sample import Sample, sample_digest

MUCH_CLIPPED = 0.05
"""From this share on, a Q clips many values; a range with least squared error clips less than 1 % of normal values."""


class CheckJob:
    """One check: the observed tensors and the findings so far.

    Args:
        index: The model.
        baseline: The float model; None without one.
        options: The options. Gates are judged later, but weights beyond the limit are counted here.
        metric: The task metric; None if none is requested.

    Attributes:
        split: How the model is divided between ONNX Runtime and qdqtool; None if it is not divided.
        checks: The findings at each Q and DQ.
        pair_errors: The error of each Q on its own input.
        outputs: The findings at each output.
        boundaries: The findings at each quantized tensor with a counterpart in the baseline.
        lonely: Q and DQ nodes without a counterpart.
        sinks: Further uses of the outputs: saved outputs, the file to write and the task metric.
        unrepeated: ``the model`` or ``the baseline``, with an output that differed in a second run of the first sample.
        nonfinite_origin: The origin of the first NaN or infinity, in words; empty if the outputs are finite.
        distinct: The digests of the samples; copies count once.
        float_form: The comparison of the model without Q and DQ with the baseline; None without a baseline or Q and DQ.
    """

    def __init__(
        self,
        index: ModelIndex,
        baseline: ModelIndex | None,
        options: CheckOptions,
        metric: RequestedMetric | None = None,
    ) -> None:
        self.index = index
        self.baseline = baseline
        self.gates = options.gates
        self.split = plan_split(index)
        own = {node.entry: node.reason for node in self.split.own.values()} if self.split is not None else {}
        self.checks = {entry: NodeCheck(entry, own=own.get(entry, "")) for entry in index.qdq.nodes}
        self.outputs: list[OutputCheck] = output_checks(index, baseline)
        self._matcher = BaselineMatcher(baseline.view, index.view) if baseline is not None else None
        self.boundaries, self.lonely = find_boundaries(index, self._matcher, judges_scales=self.gates.judges_scales)
        formats = {entry: fmt for entry in index.qdq.quantizers() if (fmt := format_of(entry)) is not None}
        own_bounds = {entry: bounds_of(entry, index) for entry in formats}
        bounds = own_bounds | {boundary.entry: boundary.bounds for boundary in self.boundaries}
        weights = {each for each in formats if self.gates.judges_scales and each.data and index.is_constant(each.data)}
        self.pair_errors = {
            entry: PairError(entry, fmt, bounds[entry], leads_to_softmax(entry), entry in weights)
            for entry, fmt in formats.items()
        }
        self.unrepeated: tuple[tuple[str, str], ...] | None = None
        self.nonfinite_origin = ""
        self.distinct: set[bytes] = set()
        self.float_form: FloatForm | None = None
        self._kept: list[tuple[Sample, Mapping[str, Array]]] = []
        self._worst = self._kept[:]
        self.sinks = OutputSinks(options, self.outputs, metric)
        self._profile = options.profile
        self._constant = ConstantNodes(index, self.checks)
        self._boundary_of = {boundary.entry: boundary for boundary in self.boundaries}
        several = nodes_with_several_values(index.view)
        for check in (self.checks[entry] for entry in self.checks if entry.node in several):
            check.problem = "the calls of its local function give it different attributes"
        idle = {entry for entry in self.checks if entry in self._constant or entry.node in several}
        self._running = [check for entry, check in self.checks.items() if entry not in idle]

    def run(self, feeds: Feeds, progress: Progress | None = None) -> None:
        """Run all samples, then the Q and DQ nodes whose inputs are constant."""
        is_random = feeds.description.seed is not None
        with ExitStack() as stack:
            stack.enter_context(self.sinks)
            watcher = _Watcher(self, self._profile, stack, is_random=is_random)
            for done, (number, sample) in enumerate(feeds.numbered()):
                if progress is not None:
                    progress(done, len(feeds))
                self.distinct.add(sample_digest(sample))
                self._add_sample(sample, SampleOrigin(number, sample.files), watcher)
            self._note_problems(watcher.model)
            self.sinks.finish()
        self._add_constants()
        if self.baseline is not None and self.checks:
            found, limits = [each.counterpart for each in self.boundaries], (self.gates.max_weight_steps, is_random)
            tensors, samples = (found, self.lonely), self._kept + self._worst
            self.float_form = compare_float_form(self.index, self.baseline, tensors, limits, samples)

    @property
    def clipping(self) -> dict[QdqNode, float]:
        """The share of clipped values of each Q that clips many baseline values, or whose error is mostly clipping.

        After one Q has clipped the values, a later Q may clip nothing more.
        """
        found = {entry: error.clipped_share for entry, error in self.pair_errors.items() if error.is_clipping}
        far = (each for each in self.boundaries if not each.is_weight and each.clipped_share > MUCH_CLIPPED)
        return found | {each.entry: each.clipped_share for each in far}

    def watched(self) -> list[Value]:
        """Return the model's tensors that are read in every run."""
        values = [check.value for check in self.outputs]
        for check in self._running:
            values.extend(value for value in inputs_of(check.entry) if not self.index.is_constant(value))
            if check.entry.output is not None:
                values.append(check.entry.output)
        return list(dict.fromkeys(values))

    def watched_baseline(self, index: ModelIndex) -> list[Value]:
        """Return the baseline's tensors that are read in every run."""
        values = [check.baseline for check in self.outputs if check.baseline is not None]
        values += [boundary.baseline for boundary in self.boundaries if not index.is_constant(boundary.baseline)]
        return list(dict.fromkeys(values))

    def _add_sample(self, sample: Sample, origin: SampleOrigin, watcher: "_Watcher") -> None:
        run = watcher.run_model(sample)
        for check in self._running:
            self._add_node(check, watcher.model, run)
        results = watcher.run_outputs(sample, run)
        floats = watcher.run_baseline(sample)
        found, wanted = self._add_outputs(origin, watcher, results, floats)
        self.sinks.add(sample, origin, found, wanted)
        if len(self._kept) < SAMPLES:
            self._kept.append((sample, {} if self._kept else wanted))
        if any(output.is_worst(origin.number) for output in self.outputs):
            self._worst = [(sample, wanted)]
        if self.unrepeated is None:
            self.unrepeated = tuple(unrepeated(self.outputs, *watcher.run_again(sample, results, floats)))
        for check in self._running if watcher.baseline is not None else ():
            if check.entry in self._boundary_of:
                self._add_boundary(self._boundary_of[check.entry], watcher, run, floats)
        if not self.nonfinite_origin and any(output.nonfinite for output in self.outputs):
            bad = [output.value for output in self.outputs if output.nonfinite]
            self.nonfinite_origin = first_nonfinite(self.index, sample, bad)

    def _add_outputs(
        self, origin: SampleOrigin, watcher: "_Watcher", results: Run, floats: Run
    ) -> tuple[dict[str, Array], dict[str, Array]]:
        """Count the outputs of one sample, and return the outputs of the model and of the baseline by name."""
        found, wanted = dict[str, Array](), dict[str, Array]()
        for output in self.outputs:
            name = output.value.name
            actual = watcher.outputs.output(results, output.value)
            expected = None
            if watcher.baseline is not None and output.baseline is not None:
                expected = watcher.baseline.output(floats, output.baseline)
            output.add(actual, expected, origin)
            found |= {name: actual} if actual is not None else {}
            wanted |= {name: expected} if expected is not None else {}
        return found, wanted

    def _add_node(self, check: NodeCheck, observer: Observer, run: Run) -> None:
        if (made := check.entry.output) is None:
            return
        quantizer = None if check.entry.is_quantize else self.index.qdq.quantizer_of(check.entry)
        for actual, tap, iterations in observer.occurrences(run, made):
            read = observer.reader(run, tap, iterations)
            compare(check, actual, read, quantizer)
            self._add_pair_error(check.entry, actual, read)

    def _add_pair_error(self, entry: QdqNode, codes: Array, read: Callable[[Value], Array | None]) -> None:
        if (error := self.pair_errors.get(entry)) is None:
            return
        parts = (entry.data, entry.scale, entry.zero_point)
        x, scale, zero_point = (read(value) if value is not None else None for value in parts)
        if x is None or scale is None:
            return
        # Parameters that do not fit the data are findings of the gate on Q and DQ nodes.
        with suppress(ArgumentError):
            error.add(x, codes, scale, zero_point)

    def _add_boundary(self, boundary: Boundary, watcher: "_Watcher", run: Run, floats: Run) -> None:
        """Count a quantized activation; stored codes are counted with the nodes of constants."""
        assert watcher.baseline is not None
        assert self._matcher is not None
        for codes, tap, iterations in watcher.model.occurrences(run, boundary.codes):
            x = watcher.baseline.at(floats, boundary.baseline, self._matcher.tap(tap), iterations)
            self._count(boundary, codes, x, watcher.model.reader(run, tap, iterations))

    def _count(
        self, boundary: Boundary, codes: Array | None, x: Array | None, read: Callable[[Value], Array | None]
    ) -> None:
        parts = (boundary.entry.scale, boundary.entry.zero_point)
        scale, zero_point = (read(value) if value is not None else None for value in parts)
        if codes is None or x is None or scale is None:
            boundary.problem = "the baseline's tensor could not be observed"
            return
        boundary.add(codes, scale, zero_point, x, self.gates.max_weight_steps)

    def _add_constants(self) -> None:
        for entry, inputs, actual in self._constant.results():
            check = self.checks[entry]
            if actual is None:
                check.problem = "its constant is too large for one model in memory"
                continue
            compare(check, actual, inputs.get, None if entry.is_quantize else self.index.qdq.quantizer_of(entry))
            self._add_pair_error(entry, actual, inputs.get)
            boundary = self._boundary_of.get(entry)
            if boundary is not None and self.baseline is not None:
                codes = actual if entry.is_quantize else inputs.get(boundary.codes)
                self._count(boundary, codes, self.baseline.constant(boundary.baseline), inputs.get)

    def _note_problems(self, observer: Observer) -> None:
        for check in self._running:
            made = check.entry.output
            problem = observer.problem(made) if made is not None else "its output has no name"
            check.problem = check.problem if problem is None else problem


class _Watcher:
    """The sessions of a check: the model with its inner tensors, the model in another profile, and the baseline."""

    def __init__(self, job: CheckJob, profile: Profile, stack: ExitStack, *, is_random: bool) -> None:
        self._is_random = is_random
        self.model = stack.enter_context(Observer(job.index, job.watched()))
        self.outputs = self.model
        self.baseline: Observer | None = None
        if profile is not Profile.SEMANTIC:
            values = [check.value for check in job.outputs]
            self.outputs = stack.enter_context(Observer(job.index, values, profile))
        if job.baseline is not None:
            self.baseline = stack.enter_context(Observer(job.baseline, job.watched_baseline(job.baseline)))

    def run_model(self, sample: Mapping[str, Array]) -> Run:
        return self._run(self.model, sample, "the model")

    def run_outputs(self, sample: Mapping[str, Array], run: Run) -> Run:
        return run if self.outputs is self.model else self._run(self.outputs, sample, "the model")

    def run_baseline(self, sample: Mapping[str, Array]) -> Run:
        return self._run(self.baseline, sample, "the baseline") if self.baseline is not None else {}

    def run_again(self, sample: Mapping[str, Array], results: Run, floats: Run) -> tuple[Runs, Runs | None]:
        """Run a sample a second time; return the outputs of both runs, of the model and of the baseline."""
        model = self.outputs, results, self._run(self.outputs, sample, "the model")
        baseline = (self.baseline, floats, self.run_baseline(sample)) if self.baseline is not None else None
        return model, baseline

    def _run(self, observer: Observer, sample: Mapping[str, Array], which: str) -> Run:
        try:
            return observer.run(sample)
        except RunError as error:
            hint = "the inputs were random; give real ones with `--data DATA`, or other shapes with --input-shapes"
            advice = hint if self._is_random else error.hint
            raise RunError(f"{which} does not run: {error.message}", hint=advice) from None


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """One check after its last sample.

    Attributes:
        job: The run, with the findings at each Q, DQ and output.
        outputs: The outputs of the model, as in the report.
        boundaries: The quantized tensors that were compared with the baseline, largest distance first.
        unmatched: Q and DQ nodes that could not be compared with the baseline, and why, in words.
        saved: The comparison with outputs that were saved elsewhere; None without such outputs.
        metric: The task metric; None if none was requested.
        is_random: Whether the inputs were random.
    """

    job: CheckJob
    outputs: tuple[OutputResult, ...]
    boundaries: tuple[BoundaryResult, ...]
    unmatched: tuple[str, ...]
    saved: SavedOutputs | None
    metric: MetricResult | None
    is_random: bool = False

    @classmethod
    def of(cls, job: CheckJob, *, is_random: bool = False) -> "Evidence":
        """Collect the evidence of a run."""
        compared = [boundary.result() for boundary in job.boundaries if boundary.error.elements]
        return cls(
            job=job,
            outputs=tuple(output.result() for output in job.outputs),
            boundaries=tuple(sorted(compared, key=lambda result: -result.max_steps)),
            unmatched=tuple(_unmatched(job)),
            saved=job.sinks.saved.report() if job.sinks.saved is not None else None,
            metric=job.sinks.metric.result() if job.sinks.metric is not None else None,
            is_random=is_random,
        )


def _unmatched(job: CheckJob) -> Iterator[str]:
    for boundary in job.boundaries:
        if boundary.problem:
            yield f"{described(boundary.entry)} was not compared: {boundary.problem}"
    for entry in job.lonely:
        yield f"{described(entry)} was not compared: the baseline has no such tensor"
