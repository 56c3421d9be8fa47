"""What ``quantize`` did, as data: the JSON report is these classes, key by key."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from qdqtool.accuracy.checking.accuracy import Accuracy
from qdqtool.accuracy.layers.noise_ranking import BlameReport
from qdqtool.accuracy.search.goal_report import GoalReport, SearchCurve
from qdqtool.accuracy.search.steps import require_valid
from qdqtool.linting.findings import Finding
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.structure import OutlineNode, outline
from qdqtool.models.graph.io.external import model_bytes
from qdqtool.models.graph.io.load import WrittenModelReport
from qdqtool.models.graph.io.metadata import HIGH_PRECISION_KEY, read_metadata
from qdqtool.models.graph.io.model_file import ModelFile
from qdqtool.models.graph.io.save import ExternalData, Sizes, save_model
from qdqtool.models.graph.scope import NodeReason
from qdqtool.models.transforms.inline_functions import InlinedFunction
from qdqtool.quantization.insertion.apply_plan import QuantizedTensor
from qdqtool.quantization.insertion.weight_scales import WeightScales
from qdqtool.quantization.planning.degenerate import DegenerateTensor
from qdqtool.quantization.planning.existing import Existing
from qdqtool.quantization.planning.existing_pairs import ResolvedModel, existing_hint, propose_for
from qdqtool.quantization.planning.high_precision import HighPrecision, HighPrecisionReport
from qdqtool.quantization.planning.placement import PlacementProposal, SkippedNode
from qdqtool.quantization.preparation.metadata import CalibrationUsed
from qdqtool.quantization.preparation.prepare import PreparationReport
from qdqtool.quantization.ranges.activation_ranges import ActivationRange


def left_in_float(skipped: Iterable[SkippedNode]) -> tuple[NodeReason, ...]:
    """What a report says of the nodes that a plan skips."""
    return tuple(
        NodeReason(node=entry.node, op_type=entry.op_type, graph=entry.graph, reason=entry.reason.text)
        for entry in skipped
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizeReport(WrittenModelReport):
    """What quantize did.

    Attributes:
        model: The input.
        output: The ``.onnx`` file written.
        external_data: The data file beside it, if any.
        mode: Quantization mode.
        target: What the output is for; it passes ``validate`` for it.
        opset_before: Default-domain opset of the input.
        opset_after: That of the output.
        calibration: Where the ranges came from, or the data of a weight-only mode; None without data.
        preparation: What became of each step that prepares the model.
        corrected: Products whose bias makes up for what their weight lost.
        separated: Products for queries, keys and values at once that became three, so that they run quantized.
        quantized: Every pair that was put in.
        skipped: Every operator that could be quantized and was not, with the reason.
        degenerate: Tensors and weights that no scale serves well, with what was done.
        high_precision: What became of what stays float; None where it stays in the type of the model.
        findings: What ``validate`` says of the output: warnings and advice. The only error is QN504, at a tensor that
            ``degenerate`` names as ``strays``.
        accuracy: What quantizing cost on a few of the samples; None where there is no data.
        ranges_file: The ranges file written, if any.
        plan_file: The plan file written, if any.
        codes_not_in_plan: Weights whose codes data chose: of these the plan file has the scales only, and inserting it
            gives another model.
        sizes: File sizes.
        existing: What became of the Q/DQ that the model had: ``keep`` or ``replace``; None where it had none. Where
            they stay, ``accuracy`` compares with the model as given, which is quantized in part.
        inlined: The local functions that were inlined, because several calls need several scales.
        curve_file: The file of the curve of accuracy against quantized share, if any.
        goal: The layers that stay in float for an accuracy that was asked for; None where none was, or every layer can
            be quantized for it.
        search: The states of the search for the accuracy that was asked for, with what each keeps; None where nothing
            was searched: without such a limit, and where every layer can be quantized and no curve was asked for.
        blame: The layers that make most of the noise at the worst output; None where nothing was measured: without
            data, with random data, where no output has noise, and where layers were left in float for a goal.
        model_file: Digests of the input; None for a model in memory.
        output_file: Digests of the output; None where it went into a device or pipe.
        nodes: The operators of the main graph of the output and what connects them, for a picture.
        activation_ranges: The range of each quantized activation, and those that the calibration methods choose; empty
            in weight-only modes.
        weight_scales: The scales by channel of each weight that has several.
    """

    model: str
    output: str
    external_data: str | None
    mode: str
    target: str
    opset_before: int
    opset_after: int
    calibration: CalibrationUsed | None
    preparation: tuple[PreparationReport, ...]
    corrected: tuple[str, ...]
    separated: tuple[str, ...]
    quantized: tuple[QuantizedTensor, ...]
    skipped: tuple[NodeReason, ...]
    degenerate: tuple[DegenerateTensor, ...]
    high_precision: HighPrecisionReport | None
    findings: tuple[Finding, ...]
    accuracy: Accuracy | None
    ranges_file: str | None
    plan_file: str | None
    codes_not_in_plan: int
    sizes: Sizes
    existing: str | None = None
    inlined: tuple[InlinedFunction, ...] = ()
    curve_file: str | None = None
    goal: GoalReport | None = None
    search: SearchCurve | None = None
    blame: BlameReport | None = None
    model_file: ModelFile | None = None
    output_file: ModelFile | None = None
    nodes: tuple[OutlineNode, ...] = ()
    activation_ranges: tuple[ActivationRange, ...] = ()
    weight_scales: tuple[WeightScales, ...] = ()


def nothing_to_add(settled: ResolvedModel) -> PlacementProposal | None:
    """Return the proposal for a model whose Q/DQ stay where it proposes no pair; None where quantize has to run."""
    source, recipe = settled.model, settled.recipe
    converted = read_metadata(source, HIGH_PRECISION_KEY) == recipe.high_precision.value
    as_asked = converted or recipe.high_precision is HighPrecision.FP32
    fixes_inputs = recipe.input_shapes or recipe.input_values
    if settled.existing is not Existing.KEEP or fixes_inputs or not as_asked:
        return None
    proposal = propose_for(ModelIndex.of(source), recipe)
    return None if proposal.slots else proposal


def write_unchanged(
    settled: ResolvedModel, proposal: PlacementProposal, output: Path, external_data: ExternalData
) -> QuantizeReport:
    """Write a model as it is, and report why nothing was quantized."""
    source, recipe = settled.model, settled.recipe
    findings = require_valid(source, source, recipe.target, hint=existing_hint(settled.existing))
    saved = save_model(source, output, external_data=external_data)
    return QuantizeReport(
        model=str(source.path or ""),
        output=str(saved.model),
        external_data=str(saved.data) if saved.data else None,
        mode=recipe.quantize_mode,
        target=recipe.target,
        opset_before=source.default_opset(),
        opset_after=source.default_opset(),
        calibration=None,
        preparation=(),
        corrected=(),
        separated=(),
        quantized=(),
        skipped=left_in_float(proposal.skipped),
        degenerate=(),
        high_precision=None,
        findings=findings,
        accuracy=None,
        ranges_file=None,
        plan_file=None,
        codes_not_in_plan=0,
        sizes=Sizes(before=model_bytes(source), after=saved.bytes),
        output_file=saved.file,
        nodes=outline(source),
        existing=recipe.existing.value,
    )
