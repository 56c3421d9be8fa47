"""The insert job: insert the Q/DQ pairs of a plan file, or of ranges from another tool, into a model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from qdqtool.errors import GateError, UsageError
from qdqtool.jobs.check import check_model
from qdqtool.jobs.quantize_unchanged import left_in_float
from qdqtool.jobs.validate import validate_model
from qdqtool.linting.findings import Finding
from qdqtool.models import targets
from qdqtool.models.graph.io.external import model_bytes
from qdqtool.models.graph.io.load import load_source
from qdqtool.models.graph.io.model_file import model_digest
from qdqtool.models.graph.io.output import is_stream
from qdqtool.models.graph.io.save import save_model
from qdqtool.models.graph.model import Model
from qdqtool.models.graph.report import NodeReason, Sizes, WrittenModelReport
from qdqtool.models.options import ExternalData, WeightStorage
from qdqtool.models.running.loadable import require_loadable
from qdqtool.models.transforms.opset import upgrade_opset
from qdqtool.quantization.insertion.apply_plan import apply_plan
from qdqtool.quantization.planning.given_ranges import match_ranges, nearest_mode
from qdqtool.quantization.planning.options import Existing
from qdqtool.quantization.planning.plan_file import read_plan_file
from qdqtool.quantization.planning.plan_resolve import FilePlanner
from qdqtool.quantization.planning.planner import Planner, index_to_plan
from qdqtool.quantization.planning.planners import PlanData, planner_for
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.quantization.planning.target_fit import RefusedBy, refused_by_any, require_targets
from qdqtool.quantization.ranges.encodings import read_encodings
from qdqtool.quantization.report import GivenReport, QuantizedTensor
from qdqtool.samples.request import DataRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertOptions:
    """How a plan is inserted into a model.

    Attributes:
        weights: How quantized constants are stored.
        external_data: Whether weights are stored in a second file.
        targets: The targets that must load the result; otherwise it is refused. Empty for no check.
        verify: Feeds on which the model is run before and after an opset upgrade; None to leave the upgrade unverified.
        force: Whether to insert a plan that was made for another model.
    """

    weights: WeightStorage = WeightStorage.PACKED
    external_data: ExternalData = ExternalData.AUTO
    targets: tuple[str, ...] = ()
    verify: DataRequest | None = None
    force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertReport(WrittenModelReport):
    """The result of ``insert``.

    Attributes:
        model: The input model.
        output: The ``.onnx`` file that was written.
        external_data: The data file of the output, if any.
        opset_before: Default-domain opset of the input.
        opset_after: Default-domain opset of the output.
        verified: The result of ``verify``; None if it was not requested.
        quantized: Every pair that was inserted.
        refused_by: For each target that does not accept the output, the first reason.
        skipped: Nodes that stay in float with ranges of another tool. Empty for a plan file, because a plan that cannot
            be carried out is an error.
        given: How ranges of another tool were used; None for a plan file.
        sizes: File sizes.
        findings: The findings of the rules about numbers (QN) in the output, such as weights that scales clip.
    """

    model: str
    output: str
    external_data: str | None
    opset_before: int
    opset_after: int
    verified: str | None
    quantized: tuple[QuantizedTensor, ...]
    refused_by: tuple[RefusedBy, ...]
    skipped: tuple[NodeReason, ...] = ()
    given: GivenReport | None = None
    sizes: Sizes
    findings: tuple[Finding, ...] = ()


def insert_plan(
    model: str | Path | Model, plan: str | Path, output: str | Path, options: InsertOptions | None = None
) -> InsertReport:
    """Insert the Q/DQ pairs of a plan file into a model and write the result.

    Args:
        model: The ``.onnx`` file, or a loaded model. It is not changed.
        plan: The plan file, TOML or JSON (``docs/reference/files.md``).
        output: The ``.onnx`` file to write.
        options: How constants and external data are stored.
    """
    options, plan = options or InsertOptions(), Path(plan)
    source = load_source(model, output, *(plan_file := read_plan_file(plan)).files(plan))
    made_for = plan_file.model_sha256
    if made_for is not None and not options.force and model_digest(source) != made_for:
        raise UsageError(
            f"plan {plan} was made for another model than {source.path or 'this one'}: its scales may not fit",
            hint="make a plan for this model; `--force` inserts this one anyway, for example before --input-shapes",
        )
    return _insert(source, FilePlanner(plan_file, plan.parent), Path(output), options)


def insert_encodings(
    model: str | Path | Model, encodings: str | Path, output: str | Path, options: InsertOptions | None = None
) -> InsertReport:
    """Insert Q/DQ pairs at the places that placement chooses, with ranges that another tool found.

    The pairs are int8 unless the file has other formats, which AIMET files may have
    (:func:`qdqtool.quantization.planning.given_ranges.nearest_mode`).

    Args:
        model: The ``.onnx`` file, or a loaded model. It is not changed.
        encodings: A TensorRT calibration cache, ONNX Runtime calibration table, AIMET encodings or npz of ranges.
        output: The ``.onnx`` file to write.
        options: How constants and external data are stored. Pairs are placed for one target, so at most one is allowed.
    """
    options, encodings = options or InsertOptions(), Path(encodings)
    if len(options.targets) > 1:
        raise UsageError("pairs are placed for one target; name one with --target")
    source = load_source(model, output, encodings)
    read = read_encodings(encodings)
    mode, target = nearest_mode(source, read.found), next(iter(options.targets), targets.DEFAULT)
    recipe = Recipe(quantize_mode=mode, target=target, existing=Existing.KEEP)
    given = match_ranges(source, read, encodings, recipe)
    options = replace(options, targets=(recipe.target,))
    return _insert(source, planner_for(recipe, PlanData(given=given)), Path(output), options)


def _insert(source: Model, planner: Planner, output: Path, options: InsertOptions) -> InsertReport:
    index = index_to_plan(source)
    planned = planner.plan(index)
    require_targets(planned.plan, index, options.targets)
    placed = apply_plan(source, planned.plan, options.weights)
    quantized = placed.model
    verified = verify_upgrade(source, quantized.default_opset(), options.verify) if options.verify else None
    require_loadable(quantized, source)
    saved = save_model(quantized, output, external_data=options.external_data)
    return InsertReport(
        model=str(source.path or ""),
        output=str(saved.model),
        external_data=str(saved.data) if saved.data else None,
        opset_before=source.default_opset(),
        opset_after=quantized.default_opset(),
        verified=verified,
        quantized=placed.report,
        refused_by=refused_by_any(planned.plan, index),
        skipped=left_in_float(planned.skipped),
        given=planned.given,
        sizes=Sizes(before=model_bytes(source), after=saved.bytes),
        # From the written file, so that its weights are read and not quantized again; a stream cannot be read.
        findings=validate_model(
            quantized if is_stream(saved.model) else saved.model, options.targets[:1] or ("onnx",), select=["QN"]
        ).findings,
    )


def verify_upgrade(source: Model, opset: int, request: DataRequest) -> str:
    """Compare a model before and after an opset upgrade in every bit of its outputs; return the result as text.

    Raises:
        GateError: An output differs.
    """
    if opset == source.default_opset():
        return f"opset {opset} was kept: nothing to verify"
    report = check_model(upgrade_opset(source, opset).model, baseline=source, data=request)
    changed = [output.name for output in report.outputs if not output.exact]
    if changed:
        raise GateError(
            f"the upgrade from opset {source.default_opset()} to {opset} changes output '{changed[0]}'",
            hint="export the model at the higher opset instead",
        )
    seen = f"outputs: {len(report.outputs)}, samples: {report.data.samples}"
    return f"opset {source.default_opset()} and {opset} give equal bits ({seen})"
