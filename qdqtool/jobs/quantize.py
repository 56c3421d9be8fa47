"""The quantize job: read a float model and data (or ranges), and write the Q/DQ model for a target."""

from dataclasses import dataclass, field, replace
from pathlib import Path

from qdqtool.accuracy.layers.method_trial import try_methods
from qdqtool.accuracy.search.accuracy_goal import AccuracyGoal
from qdqtool.accuracy.search.blame import blame_of
from qdqtool.accuracy.search.candidate import CandidateFactory
from qdqtool.accuracy.search.goal_search import SearchResult, reach_goal
from qdqtool.accuracy.search.metric_data import require_labels, require_predictions, require_samples
from qdqtool.accuracy.search.steps import QuantizeSteps, with_measured
from qdqtool.accuracy.task_metrics.request import MetricMeasurement, MetricRequest
from qdqtool.engines.tensorrt.planned_types import quantized_share, work_of
from qdqtool.errors import UsageError
from qdqtool.jobs.quantize_files import ExtraFiles, check_files, save_extras
from qdqtool.jobs.quantize_report import QuantizeReport
from qdqtool.jobs.quantize_unchanged import is_as_asked, left_in_float, nothing_to_add, write_unchanged
from qdqtool.jobs.verdict import judge, reasons_of, word_of
from qdqtool.models.graph.index.structure import outline
from qdqtool.models.graph.io.external import model_bytes
from qdqtool.models.graph.io.load import load_model
from qdqtool.models.graph.io.model_file import described_beside
from qdqtool.models.graph.io.offload import offloaded
from qdqtool.models.graph.io.output import together
from qdqtool.models.graph.io.save import save_model
from qdqtool.models.graph.model import Model
from qdqtool.models.graph.report import Sizes
from qdqtool.models.options import ExternalData, WeightStorage
from qdqtool.models.running.known_part import known_part
from qdqtool.models.running.loadable import require_loadable
from qdqtool.quantization.insertion.weight_scales import weight_scales
from qdqtool.quantization.planning.degenerate import with_zeros
from qdqtool.quantization.planning.existing_pairs import existing_hint, settle_existing, settle_model
from qdqtool.quantization.planning.high_precision import ready_for
from qdqtool.quantization.planning.planner import index_to_plan
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.quantization.preparation.cached_ranges import CachedRanges
from qdqtool.quantization.preparation.calibration import runs_for
from qdqtool.quantization.preparation.plan_inputs import PlanSources, gather_data, gather_inputs
from qdqtool.quantization.ranges.activation_ranges import activation_ranges
from qdqtool.samples.feeds import Progress
from qdqtool.samples.request import FileData, RandomData

_Extras = tuple[MetricMeasurement | None, Progress | None, Progress | None]  # the last is called for runs in a search


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizeOptions(ExtraFiles):
    """How a model is quantized and written.

    Attributes:
        recipe: Mode, target and options, such as how ranges become scales.
        weights: How quantized constants are stored.
        external_data: Whether weights are stored in a second file.
        ranges_file: Where to write the ranges too; None for nowhere.
        plan_file: Where to write the plan too, as JSON; None for nowhere.
        validation_data: Samples to measure the accuracy on; None to hold out a part of the calibration data.
        metric: A task metric: ``NAME``, ``NAME:OUTPUT``, ``SCRIPT.py:func``, a function
            (``docs/how-to/check.md``), or None.
        goal: The accuracy target for which layers may stay in float; None to quantize all layers.
        partial: Whether a model with unknown operators is quantized in front of them.
        curve_file: Where to write the curve of accuracy against quantized share, as JSON; needs an accuracy target.
    """

    recipe: Recipe = field(default_factory=Recipe)
    weights: WeightStorage = WeightStorage.PACKED
    external_data: ExternalData = ExternalData.AUTO
    validation_data: str | Path | FileData | None = None
    metric: MetricRequest | None = None
    goal: AccuracyGoal | None = None
    partial: bool = False

    def __post_init__(self) -> None:
        if self.recipe.fallback is not None and self.goal is None:
            raise UsageError(
                "--fallback needs --min-sqnr or --max-metric-loss: without a limit, every layer keeps its format",
                hint="`--min-sqnr 30`, in dB",
            )


def quantize_model(
    model: str | Path | Model,
    data: str | Path | FileData | RandomData | CachedRanges | None,
    output: str | Path,
    options: QuantizeOptions | None = None,
    progress: Progress | None = None,
    tick: Progress | None = None,
) -> QuantizeReport:
    """Quantize a float model and write the result, which passes ``validate`` for its target.

    One error is allowed: QN504 at a tensor whose outlier rounds its other values to 0 (``strays`` in the report).

    Args:
        model: The ``.onnx`` file, or a loaded model. It is not changed.
        data: Calibration data, a request for random data, or ranges; None in weight-only modes. A fifth of the samples
            is held out to measure the accuracy.
        output: The ``.onnx`` file to write.
        options: Which tensors are quantized, and how they are stored; default is int8 for TensorRT.
        progress: Called after each calibration sample, with the number of finished samples and of all samples.
        tick: Called for each run of a sample in a search, with the number of finished runs and the largest number.
    """
    options = options or QuantizeOptions()
    sources = PlanSources(data, options.validation_data, options.ranges_file, trial=try_methods)
    metric = MetricMeasurement.asked(options.metric)
    if options.goal is not None:
        options.goal.validate(has_metric=metric is not None)
    elif metric is not None:
        require_samples(sources)
    given = offloaded(model if isinstance(model, Model) else load_model(model))
    with described_beside(given) as model_file:
        report = _quantize(given, sources, Path(output), options, (metric, progress, tick))
        judgements = judge([("", report)])
        word, reasons = word_of(judgements), reasons_of(judgements)
        return replace(report, model_file=model_file(), verdict=word, reasons=reasons)


def _quantize(
    given: Model, sources: PlanSources, output: Path, options: QuantizeOptions, extras: _Extras
) -> QuantizeReport:
    metric, progress, tick = extras
    if options.ranges_file is not None:
        options.recipe.require_ranges("there are no ranges to write")
    measured = options.goal.sensitivity_file if options.goal is not None else None
    check_files(given, (sources.data, options.validation_data), (output, measured), options)
    part = known_part(settle_existing(given, options.recipe).model) if options.partial else None
    settled = settle_model(given if part is None else part.model, options.recipe)
    source, options = settled.model, replace(options, recipe=settled.recipe)
    left = nothing_to_add(settled) if options.ranges_file is None and options.plan_file is None else None
    if left is not None and is_as_asked(settled):
        return write_unchanged(settled, left, output, options.external_data)
    with runs_for(options.recipe) as runs:
        if metric is not None:
            require_labels(metric.metric, source, sources, options.recipe)
        if metric is not None and options.goal is not None and options.goal.max_metric_loss is not None:
            require_predictions(metric.metric, source, sources, options.recipe, options.goal.max_metric_loss)
        inputs = (gather_inputs if left is None else gather_data)(source, sources, options.recipe, runs, progress)
        if options.ranges_file is not None and inputs.ranges is None:
            raise UsageError("--save-ranges cannot write ranges of another tool: leave --save-ranges out")
        ready = ready_for(inputs.prepared.model, options.recipe.high_precision).model
        factory = CandidateFactory(
            given=given if part is None else part.model,
            index=index_to_plan(ready),
            steps=QuantizeSteps.of(ready, inputs, options.recipe, options.weights),
            data=inputs.plan_data(progress, stored=options.weights is WeightStorage.PACKED),
            runs=runs,
            hint=existing_hint(settled.existing),
            metric=metric,
            tick=tick,
        )
        first = factory.first() if left is None else factory.without_pairs(left.skipped)
        factory, first = factory.with_accurate_half(first)
        reached = SearchResult(first) if options.goal is None else reach_goal(factory, first, ready, options.goal)
    candidate, planned, made = reached.candidate, reached.candidate.planned, reached.candidate.made
    if not candidate.measured.loaded and part is None:
        require_loadable(made.model, given)
    model = made.model if part is None else part.joined(made.model)
    with together():
        saved = save_model(model, output, external_data=options.external_data)
        save_extras(options, inputs.ranges, (planned.plan, inputs.prepared.model), reached.curve)
    work = work_of(model)
    return QuantizeReport(
        model=str(given.path or ""),
        output=str(saved.model),
        external_data=str(saved.data) if saved.data else None,
        mode=options.recipe.quantize_mode,
        target=options.recipe.target,
        opset_before=given.default_opset(),
        opset_after=made.model.default_opset(),
        calibration=inputs.used_for(planned) if made.pairs else None,
        preparation=inputs.prepared.reports,
        corrected=made.corrected,
        separated=made.separated,
        quantized=made.pairs,
        skipped=(*left_in_float(planned.skipped), *(part.behind if part is not None else ())),
        not_computed=part.lost if part is not None else (),
        degenerate=with_measured(planned.degenerate, candidate.measured.accuracy),
        high_precision=made.high_precision,
        findings=candidate.findings,
        accuracy=candidate.measured.accuracy,
        ranges_file=str(options.ranges_file) if options.ranges_file else None,
        plan_file=str(options.plan_file) if options.plan_file else None,
        codes_not_in_plan=planned.rounded_by_data if options.plan_file else 0,
        sizes=Sizes(before=model_bytes(given), after=saved.bytes),
        output_file=saved.file,
        nodes=outline(model),
        activation_ranges=activation_ranges(planned.choices, inputs.ranges, options.recipe.method),
        weight_scales=weight_scales(planned.plan, factory.index, with_zeros(planned.degenerate)),
        inlined=settled.inlined,
        existing=settled.existing.value if settled.existing is not None else None,
        curve_file=str(options.curve_file) if options.curve_file else None,
        goal=reached.report,
        search=reached.search,
        blame=None if reached.report is not None else blame_of(candidate, factory, ready),
        weights=options.weights.value,
        has_accuracy_target=options.goal is not None,
        quantized_share=quantized_share(work),
        work=work,
    )
