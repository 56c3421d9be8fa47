"""The outcome of ``quantize --existing keep`` where no layer is left to quantize: the model as it is."""

from __future__ import annotations

from pathlib import Path

from qdqtool.accuracy.search.validity import require_valid
from qdqtool.jobs.quantize_report import QuantizeReport, left_in_float
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.outline import outline
from qdqtool.models.graph.io.external import model_bytes
from qdqtool.models.graph.io.metadata import HIGH_PRECISION_KEY, read_metadata
from qdqtool.models.graph.io.save import ExternalData, Sizes, save_model
from qdqtool.quantization.planning.existing import Existing
from qdqtool.quantization.planning.existing_pairs import Settled, way_out
from qdqtool.quantization.planning.placement import Proposal
from qdqtool.quantization.planning.proposal import propose_for
from qdqtool.quantization.planning.scale_type import HighPrecision


def nothing_to_add(settled: Settled) -> Proposal | None:
    """Return the proposal for a model whose Q/DQ stay where it proposes no pair; None where quantize has to run.

    Raises:
        UsageError: A pattern matches nothing.
    """
    source, recipe = settled.model, settled.recipe
    converted = read_metadata(source, HIGH_PRECISION_KEY) == recipe.high_precision.value
    as_asked = converted or recipe.high_precision is HighPrecision.FP32
    fixes_inputs = recipe.input_shapes or recipe.input_values
    if settled.existing is not Existing.KEEP or fixes_inputs or not as_asked:
        return None
    proposal = propose_for(ModelIndex.of(source), recipe)
    return None if proposal.slots else proposal


def write_unchanged(settled: Settled, proposal: Proposal, output: Path, external_data: ExternalData) -> QuantizeReport:
    """Write a model as it is, and report why nothing was quantized.

    Raises:
        GateError: It does not pass ``validate``. Nothing was written.
        OutputError: It cannot be written.
    """
    source, recipe = settled.model, settled.recipe
    findings = require_valid(source, source, recipe.target, way_out=way_out(settled.existing))
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
