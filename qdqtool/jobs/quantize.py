"""The quantize job: a float model and data (or ranges) in, the Q/DQ model for a target out."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from qdqtool.checking.accuracy import measure_accuracy
from qdqtool.checking.gptq_metadata import rounding_note
from qdqtool.data.feeds import Progress
from qdqtool.data.request import FileData, RandomData
from qdqtool.errors import UsageError
from qdqtool.graph.index.model_index import ModelIndex
from qdqtool.graph.io.external import model_bytes
from qdqtool.graph.io.load import load_model
from qdqtool.graph.io.metadata import with_metadata
from qdqtool.graph.io.save import ExternalData, Sizes, save_model
from qdqtool.graph.io.spill import spilled
from qdqtool.graph.model import Model
from qdqtool.graph.transformed import Transformed
from qdqtool.insertion.apply_plan import QuantizedTensor, apply_plan
from qdqtool.insertion.pair_edits import WeightStorage
from qdqtool.insertion.split_qkv import separate_projections
from qdqtool.jobs.quantize_files import check_files, save_extras
from qdqtool.jobs.quantize_report import QuantizeReport, left_in_float
from qdqtool.jobs.quantize_unchanged import nothing_to_add, write_unchanged
from qdqtool.jobs.validate import require_valid
from qdqtool.planning.calibration_used import CalibrationUsed
from qdqtool.planning.degenerate import with_measured
from qdqtool.planning.existing import Existing
from qdqtool.planning.existing_pairs import notes_beside, settle_model, way_out
from qdqtool.planning.high_precision import HighPrecisionReport, high_precision_note, known_magnitudes, lower, ready_for
from qdqtool.planning.planner import Planned, index_to_plan
from qdqtool.planning.planners import PlanData, planner_for
from qdqtool.planning.recipe import Recipe
from qdqtool.planning.scale_type import HighPrecision
from qdqtool.preparation.bias_correction import correct_biases
from qdqtool.preparation.cached_ranges import CachedRanges
from qdqtool.preparation.calibration import runs_for
from qdqtool.preparation.data_metadata import data_note
from qdqtool.preparation.plan_inputs import PlanInputs, gather_inputs
from qdqtool.preparation.preparation_metadata import preparation_note
from qdqtool.running.loadable import require_loadable


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


def quantize_model(
    model: str | Path | Model,
    data: str | Path | FileData | RandomData | CachedRanges | None,
    output: str | Path,
    options: QuantizeOptions | None = None,
    progress: Progress | None = None,
) -> QuantizeReport:
    """Quantize a float model and write the result, which passes ``validate`` for its target.

    One error does not stop it: QN504 at a tensor that the report names as ``strays`` too, of which an outlier leaves
    nothing.

    Args:
        model: The ``.onnx`` file, or a loaded model. It is not changed.
        data: Calibration data, that it is random, or ranges that were found before. Weight-only modes need none and
            take None; data then shows what quantizing cost.
        output: The ``.onnx`` file to write.
        options: What is quantized and how it is stored; default int8 for TensorRT.
        progress: Told of every calibration sample.

    Raises:
        ModelError: The model cannot be read, or the reference loads it and not the result.
        UsageError: The model is quantized already and the recipe does not say what becomes of that; data, ranges or
            patterns do not fit the model, or nothing can be quantized.
        CapabilityError: ONNX Runtime is not installed or cannot run the model.
        GateError: The result would not pass ``validate``. Nothing was written.
        OutputError: An output cannot be written.
    """
    options, output = options or QuantizeOptions(), Path(output)
    given = spilled(model if isinstance(model, Model) else load_model(model))
    if options.ranges_file is not None:
        options.recipe.require_ranges("there are no ranges to write")
    check_files(given, data, output, options.ranges_file, options.plan_file)
    settled = settle_model(given, options.recipe)
    source, options = settled.model, replace(options, recipe=settled.recipe)
    left = nothing_to_add(settled)
    if left is not None and options.ranges_file is None and options.plan_file is None:
        return write_unchanged(settled, left, output, options.external_data)
    with runs_for(options.recipe) as runs:
        inputs = gather_inputs(source, data, options.recipe, runs, progress, options.ranges_file)
        if options.ranges_file is not None and inputs.ranges is None:
            raise UsageError(
                "there are no ranges to write: those of another tool say less",
                hint="leave out --save-ranges: their file is there already",
            )
        before, feeds = inputs.prepared.model, inputs.feeds
        ready = ready_for(before, options.recipe.high_precision).model
        planned = planner_for(options.recipe, _plan_data(inputs, options, progress)).plan(index_to_plan(ready))
        made = _carry_out(ready, planned, inputs, options)
        lossy = {(each.graph, each.tensor) for each in planned.degenerate if each.condition == "strays"}
        findings = require_valid(made.model, given, options.recipe.target, lossy, way_out(settled.existing))
        cost = measure_accuracy(before, made.model, planned.plan, feeds, runs) if feeds is not None else None
    if cost is None or cost.problem:
        require_loadable(made.model, given)
    saved = save_model(made.model, output, external_data=options.external_data)
    save_extras(options.ranges_file, inputs.ranges, options.plan_file, planned.plan)
    return QuantizeReport(
        model=str(given.path or ""),
        output=str(saved.model),
        external_data=str(saved.data) if saved.data else None,
        mode=options.recipe.quantize_mode,
        target=options.recipe.target,
        opset_before=given.default_opset(),
        opset_after=made.model.default_opset(),
        calibration=made.used,
        preparation=inputs.prepared.reports,
        corrected=made.corrected,
        separated=made.separated,
        quantized=made.pairs,
        skipped=left_in_float(planned.skipped),
        degenerate=with_measured(planned.degenerate, cost),
        high_precision=made.high_precision,
        findings=findings,
        accuracy=cost,
        ranges_file=str(options.ranges_file) if options.ranges_file else None,
        plan_file=str(options.plan_file) if options.plan_file else None,
        codes_not_in_plan=planned.rounded_by_data if options.plan_file else 0,
        sizes=Sizes(before=model_bytes(given), after=saved.bytes),
        inlined=settled.inlined,
        existing=settled.existing.value if settled.existing is not None else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Quantized:
    """The quantized model in memory, and what each step reports."""

    model: Model
    pairs: tuple[QuantizedTensor, ...]
    corrected: tuple[str, ...]
    separated: tuple[str, ...]
    high_precision: HighPrecisionReport | None
    used: CalibrationUsed | None


def _plan_data(inputs: PlanInputs, options: QuantizeOptions, progress: Progress | None) -> PlanData:
    stored = options.weights is WeightStorage.PACKED
    return PlanData(ranges=inputs.ranges, given=inputs.given, feeds=inputs.feeds, progress=progress, stored=stored)


def _carry_out(ready: Model, planned: Planned, inputs: PlanInputs, options: QuantizeOptions) -> _Quantized:
    """Put a plan into the model that it was made for, and take the steps that follow."""
    prepared, recipe = inputs.prepared, options.recipe
    before = ModelIndex.of(prepared.model)
    placed = apply_plan(ready, planned.plan, options.weights)
    corrected = correct_biases(placed.model, before, planned.plan, prepared.means)
    separated = separate_projections(corrected.model, recipe.target)
    lowered: Transformed[HighPrecisionReport | None] = Transformed(separated.model, None)
    if recipe.high_precision is HighPrecision.FP16:
        lowered = lower(separated.model, known_magnitudes(prepared.model, inputs.feeds, inputs.ranges))
    used = inputs.used_for(planned)
    notes = {
        **high_precision_note(lowered.report),
        **preparation_note(prepared.record),
        **rounding_note(before, planned.plan),
        **data_note(used, prepared, corrected.report),
    }
    return _Quantized(
        # Spilled, so that codes are computed once, and not for the linter, the session and the file each.
        model=with_metadata(
            spilled(lowered.model),
            notes if recipe.existing is not Existing.KEEP else notes_beside(prepared.model, notes),
        ),
        pairs=placed.report,
        corrected=corrected.report,
        separated=separated.report,
        high_precision=lowered.report,
        used=used,
    )
