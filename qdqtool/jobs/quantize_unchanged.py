"""Write models in which nothing can be quantized unchanged, and report why each operator stays in float."""

from collections.abc import Iterable
from pathlib import Path

from qdqtool.accuracy.search.steps import require_valid
from qdqtool.engines.tensorrt.planned_types import quantized_share, work_of
from qdqtool.jobs.quantize_report import QuantizeReport
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.structure import outline
from qdqtool.models.graph.io.external import model_bytes
from qdqtool.models.graph.io.metadata import HIGH_PRECISION_KEY, read_metadata
from qdqtool.models.graph.io.save import save_model
from qdqtool.models.graph.report import NodeReason, Sizes
from qdqtool.models.options import ExternalData
from qdqtool.quantization.planning.existing_pairs import ResolvedModel, existing_hint, propose_for
from qdqtool.quantization.planning.options import Existing, HighPrecision
from qdqtool.quantization.planning.placement import PlacementProposal, SkippedNode


def left_in_float(skipped: Iterable[SkippedNode]) -> tuple[NodeReason, ...]:
    """Return the nodes that a plan skips, in the form for a report."""
    return tuple(
        NodeReason(node=entry.node, op_type=entry.op_type, graph=entry.graph, reason=entry.reason.text)
        for entry in skipped
    )


def nothing_to_add(settled: ResolvedModel) -> PlacementProposal | None:
    """Return the proposal if a model keeps its Q/DQ and gets no new pairs; None if it must be quantized."""
    fixes_inputs = settled.recipe.input_shapes or settled.recipe.input_values
    if settled.existing is not Existing.KEEP or fixes_inputs:
        return None
    proposal = propose_for(ModelIndex.of(settled.model), settled.recipe)
    return None if proposal.slots else proposal


def is_as_asked(settled: ResolvedModel) -> bool:
    """Return whether the unquantized nodes of a model already have the type that the recipe asks for."""
    wanted = settled.recipe.high_precision
    return wanted is HighPrecision.FP32 or read_metadata(settled.model, HIGH_PRECISION_KEY) == wanted.value


def write_unchanged(
    settled: ResolvedModel, proposal: PlacementProposal, output: Path, external_data: ExternalData
) -> QuantizeReport:
    """Write a model unchanged, and report why nothing was quantized."""
    source, recipe = settled.model, settled.recipe
    work = work_of(source)
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
        quantized_share=quantized_share(work),
        work=work,
    )
