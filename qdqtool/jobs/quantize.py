"""The quantize job: a float model and data (or ranges) in, the Q/DQ model for a target out."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from qdqtool.checking.accuracy import measure
from qdqtool.checking.gptq_metadata import rounding_note
from qdqtool.data import Feeds
from qdqtool.data.feeds import Progress
from qdqtool.data.request import FileData, RandomData, open_feeds
from qdqtool.errors import GateError, UsageError
from qdqtool.findings import Finding
from qdqtool.graph.index.model_index import ModelIndex
from qdqtool.graph.io.external import model_bytes
from qdqtool.graph.io.load import load_model
from qdqtool.graph.io.metadata import with_metadata
from qdqtool.graph.io.save import ExternalData, Sizes, check_output, save_model, write_atomically
from qdqtool.graph.io.spill import spilled
from qdqtool.graph.model import Model
from qdqtool.graph.scope import display
from qdqtool.graph.transformed import Transformed
from qdqtool.insertion.apply_plan import apply_plan
from qdqtool.insertion.pair_edits import WeightStorage
from qdqtool.insertion.split_qkv import separate_projections
from qdqtool.jobs.calibrate import calibrate_model, prepared_for, runs_for
from qdqtool.jobs.quantize_report import MatchesReport, NodeToQuantize, QuantizeReport, left_in_float
from qdqtool.jobs.validate import validate_model
from qdqtool.plan import QuantPlan
from qdqtool.planning.calibration_used import CalibrationUsed, data_of_weights, used_ranges
from qdqtool.planning.degenerate import with_measured
from qdqtool.planning.given_planner import GivenPlanner
from qdqtool.planning.given_ranges import given_ranges
from qdqtool.planning.high_precision import HighPrecisionReport, high_precision_note, known_magnitudes, lower, ready_for
from qdqtool.planning.plan_write import encode_plan
from qdqtool.planning.planner import Planned, Planner, index_to_plan
from qdqtool.planning.proposal import propose_for
from qdqtool.planning.range_planner import RangePlanner
from qdqtool.planning.recipe import Recipe, with_fixed_shapes
from qdqtool.planning.scale_type import HighPrecision
from qdqtool.planning.weight_planner import WeightPlanner
from qdqtool.preparation.bias_correction import correct_biases
from qdqtool.preparation.cached_ranges import CachedRanges, ranges_from_cache
from qdqtool.preparation.data_metadata import data_note
from qdqtool.preparation.preparation_metadata import preparation_note
from qdqtool.preparation.prepare import Prepared
from qdqtool.ranges import encodings
from qdqtool.ranges.calibration_run import CalibrationScope
from qdqtool.ranges.file import encode_ranges
from qdqtool.ranges.types import Ranges
from qdqtool.running.channel_statistics import ChannelData
from qdqtool.running.float_runs import FloatRuns
from qdqtool.transforms.batchnorm import fold_batchnorm


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizeOptions:
    """How a model is quantized and written.

    Attributes:
        recipe: What is quantized, and how ranges become scales.
        weights: How quantized constants are stored.
        external_data: Where weights are stored.
        ranges_file: Where to write the ranges too.
        plan_file: Where to write the plan too, as JSON.
    """

    recipe: Recipe = field(default_factory=Recipe)
    weights: WeightStorage = WeightStorage.PACKED
    external_data: ExternalData = ExternalData.AUTO
    ranges_file: Path | None = None
    plan_file: Path | None = None


@dataclass(frozen=True, slots=True)
class _Job:
    """What is quantized, and what decides how.

    Attributes:
        runs: Runs the float model.
        prepared: The float model.
        planner: Makes the plan for it.
        feeds: Data that it can be run on; None where there is none.
        ranges: Of its activations; None in weight-only modes.
        used: Where the ranges came from; None in weight-only modes.
    """

    runs: FloatRuns
    prepared: Prepared
    planner: Planner
    feeds: Feeds | None = None
    ranges: Ranges | None = None
    used: CalibrationUsed | None = None


def quantize_model(
    model: str | Path | Model,
    data: str | Path | FileData | RandomData | CachedRanges | None,
    output: str | Path,
    options: QuantizeOptions | None = None,
    progress: Progress | None = None,
) -> QuantizeReport:
    """Quantize a float model and write the result, which passes ``validate`` for its target.

    Args:
        model: The ``.onnx`` file, or a loaded model. It is not changed.
        data: Calibration data, that it is random, or ranges that were found before. Weight-only modes need none and
            take None; data then shows what quantizing cost.
        output: The ``.onnx`` file to write.
        options: What is quantized and how it is stored; default int8 for TensorRT.
        progress: Told of every calibration sample.

    Raises:
        ModelError: The model cannot be read.
        UsageError: Data, ranges or patterns do not fit the model, or nothing can be quantized.
        CapabilityError: ONNX Runtime is not installed or cannot run the model.
        GateError: The result would not pass ``validate``. Nothing was written.
        OutputError: An output cannot be written.
    """
    options, output = options or QuantizeOptions(), Path(output)
    source = spilled(model if isinstance(model, Model) else load_model(model))
    _check_outputs(source, data, output, options)
    with runs_for(options.recipe) as runs:
        job = _make_job(source, data, options, progress, runs)
        return _quantized(source, job, output, options)


def _quantized(source: Model, job: _Job, output: Path, options: QuantizeOptions) -> QuantizeReport:
    if options.ranges_file is not None and job.ranges is None:
        raise UsageError("there are no ranges to write: those of another tool say less", hint="qdqtool convert-ranges")
    before, high_precision = job.prepared.model, options.recipe.high_precision
    ready = ready_for(before, high_precision).model
    planned = job.planner.plan(index_to_plan(ready))
    placed = apply_plan(ready, planned.plan, options.weights)
    corrected = correct_biases(placed.model, before, planned.plan, job.prepared.means)
    separated = separate_projections(corrected.model, options.recipe.target)
    lowered: Transformed[HighPrecisionReport | None] = Transformed(separated.model, None)
    if high_precision is HighPrecision.FP16:
        lowered = lower(separated.model, known_magnitudes(before, job.feeds, job.ranges))
    used = _used(job, planned)
    notes = {
        **high_precision_note(lowered.report),
        **preparation_note(job.prepared.record),
        **rounding_note(before, planned.plan),
        **data_note(used, job.prepared, corrected.report),
    }
    # spilled: codes are made once, and not for the linter, the session and the file each
    quantized = with_metadata(spilled(lowered.model), notes)
    findings = _validated(quantized, source, options.recipe.target)
    cost = measure(before, quantized, planned.plan, job.feeds, job.runs) if job.feeds is not None else None
    saved = save_model(quantized, output, external_data=options.external_data)
    _save_extras(options, job.ranges, planned.plan)
    return QuantizeReport(
        model=str(source.path or ""),
        output=str(saved.model),
        external_data=str(saved.data) if saved.data else None,
        mode=options.recipe.quantize_mode,
        target=options.recipe.target,
        opset_before=source.default_opset(),
        opset_after=quantized.default_opset(),
        calibration=used,
        preparation=job.prepared.reports,
        corrected=corrected.report,
        separated=separated.report,
        quantized=placed.report,
        skipped=left_in_float(planned.skipped),
        degenerate=with_measured(planned.degenerate, cost),
        high_precision=lowered.report,
        findings=findings,
        accuracy=cost,
        ranges_file=str(options.ranges_file) if options.ranges_file else None,
        plan_file=str(options.plan_file) if options.plan_file else None,
        codes_not_in_plan=planned.rounded_by_data if options.plan_file else 0,
        sizes=Sizes(before=model_bytes(source), after=saved.bytes),
    )


def list_matches(model: str | Path | Model, recipe: Recipe | None = None) -> MatchesReport:
    """What ``quantize_model`` would quantize and skip, without running the model.

    Raises:
        ModelError: The model cannot be read.
        UsageError: A pattern matches nothing, or input shapes do not fit.
    """
    recipe = recipe or Recipe()
    source = model if isinstance(model, Model) else load_model(model)
    folded = fold_batchnorm(with_fixed_shapes(source, recipe)).model
    index = ModelIndex.of(folded)
    proposal = propose_for(index, recipe)
    uses = {(use.scope, use.node) for entry in proposal.slots for use in entry.slot.uses or ()}
    nodes = (node for node in index.view.nodes() if (node.scope.path, node.key) in uses)
    return MatchesReport(
        model=str(source.path or ""),
        target=recipe.target,
        patterns=recipe.selection.matches(index.view),
        quantized=tuple(
            NodeToQuantize(node=node.label, op_type=node.op_type, graph=display(node.scope.path)) for node in nodes
        ),
        skipped=left_in_float(proposal.skipped),
    )


def _check_outputs(
    source: Model,
    data: str | Path | FileData | RandomData | CachedRanges | None,
    output: Path,
    options: QuantizeOptions,
) -> None:
    if options.ranges_file is not None and options.recipe.mode.weight_only:
        raise UsageError(
            f"quantize mode '{options.recipe.quantize_mode}' quantizes weights only: there are no ranges to write"
        )
    inputs = [source.path] if source.path else []
    if data is not None and not isinstance(data, RandomData):
        inputs.append(Path(data) if isinstance(data, str | Path) else data.path)
    if isinstance(data, CachedRanges) and data.data is not None:
        inputs.append(data.data.path)
    extra = [path for path in (options.ranges_file, options.plan_file) if path is not None]
    for path in (output, *extra):
        check_output(path, inputs)
    if len({path.resolve() for path in (output, *extra)}) != 1 + len(extra):
        raise UsageError("two outputs have the same name", hint="name a file for each of them")
    if options.plan_file is not None and options.plan_file.suffix.lower() != ".json":
        raise UsageError(f"plan file {options.plan_file} must end in .json", hint="plans are written as JSON")


def _save_extras(options: QuantizeOptions, ranges: Ranges | None, plan: QuantPlan) -> None:
    if options.ranges_file is not None and ranges is not None:
        write_atomically(options.ranges_file, encode_ranges(ranges))
    if options.plan_file is not None:
        write_atomically(options.plan_file, encode_plan(plan))


def _make_job(
    source: Model,
    data: str | Path | FileData | RandomData | CachedRanges | None,
    options: QuantizeOptions,
    progress: Progress | None,
    runs: FloatRuns,
) -> _Job:
    recipe = options.recipe
    if isinstance(data, CachedRanges) and encodings.recognize(data.path) is not None:
        return _given_job(source, data, recipe, runs)
    if recipe.mode.weight_only:
        return _weights_job(source, data, options, progress, runs)
    if data is None:
        raise UsageError(
            f"quantize mode '{recipe.quantize_mode}' quantizes activations: it needs calibration data",
            hint="weight-only modes need none: int8-weight-only, fp8-weight-only, int4, nvfp4",
        )
    if isinstance(data, CachedRanges):
        cached = ranges_from_cache(with_fixed_shapes(source, recipe), data, recipe)
        found, used = cached.found, cached.used
    else:
        found = calibrate_model(source, data, recipe, runs, progress, CalibrationScope(keep=options.ranges_file))
        assert found.feeds is not None
        used = used_ranges(found.feeds.description.source, found.ranges.record, recipe)
    return _Job(runs, found.prepared, RangePlanner(recipe, found.ranges), found.feeds, found.ranges, used)


def _weights_job(
    source: Model,
    data: str | Path | FileData | RandomData | CachedRanges | None,
    options: QuantizeOptions,
    progress: Progress | None,
    runs: FloatRuns,
) -> _Job:
    """The model of a weight-only mode: prepared as far as there is data to prove that preparing changes nothing.

    Weights that stay float behind a Q are rounded to the nearest code by whoever runs the model, so data chooses none.
    """
    recipe = options.recipe
    if isinstance(data, CachedRanges):
        raise UsageError(
            f"quantize mode '{recipe.quantize_mode}' quantizes weights only: it has no use for ranges {data.path}"
        )
    model = with_fixed_shapes(source, recipe)
    stored = options.weights is WeightStorage.PACKED
    if data is None:
        return _Job(runs, Prepared(model), WeightPlanner(recipe, stored=stored))
    feeds = open_feeds(model, data)
    prepared = prepared_for(recipe, model, feeds, runs)
    return _Job(runs, prepared, WeightPlanner(recipe, feeds if stored else None, progress, stored), feeds)


def _given_job(source: Model, cache: CachedRanges, recipe: Recipe, runs: FloatRuns) -> _Job:
    """What another tool found is of the model as it is, so nothing is prepared; data serves to correct biases."""
    model = with_fixed_shapes(source, recipe)
    given = given_ranges(model, cache.path, recipe)
    used = used_ranges(str(cache.path), given.ranges.record, recipe)
    used = replace(used, method=given.report.format, given=given.report)
    feeds = None if cache.data is None else open_feeds(model, cache.data)
    correct = recipe.preparation.bias_correction
    means = ChannelData(feeds, runs).means(model) if feeds is not None and correct else {}
    return _Job(runs, Prepared(model, means=means), GivenPlanner(recipe, given), feeds, None, used)


def _used(job: _Job, planned: Planned) -> CalibrationUsed | None:
    """Where ranges came from, with what the plan made of a file of another tool, or the data of a weight-only mode."""
    if job.used is not None:
        return job.used if planned.given is None else replace(job.used, given=planned.given)
    return data_of_weights(job.feeds.description, rounded=planned.rounded_by_data) if job.feeds is not None else None


def _validated(quantized: Model, source: Model, target: str) -> tuple[Finding, ...]:
    """What the linter says of the result: no errors."""
    findings = validate_model(quantized, [target]).findings
    errors = [finding for finding in findings if finding.severity == "error"]
    if not errors:
        return findings
    first = errors[0]
    before = {(finding.code, finding.graph, finding.node) for finding in validate_model(source, [target]).findings}
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    known = all((finding.code, finding.graph, finding.node) in before for finding in errors)
    raise GateError(
        f"the quantized model would not pass `validate --target {target}`; nothing was written: {first.code} "
        f"{first.node or first.tensor or ''}: {first.message}{more}",
        hint="the float model has these errors already: mend it first, or choose another --target" if known else None,
    )
