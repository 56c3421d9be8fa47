"""The strip job: remove Q/DQ from a model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from qdqtool.errors import ModelError
from qdqtool.models.graph.io.external import model_bytes
from qdqtool.models.graph.io.load import load_source
from qdqtool.models.graph.io.save import save_model
from qdqtool.models.graph.model import Model
from qdqtool.models.graph.report import NodeReason, Sizes
from qdqtool.models.options import ExternalData
from qdqtool.models.running.loadable import require_loadable
from qdqtool.models.transforms.strip import RestoredNode, strip_from
from qdqtool.models.transforms.strip_edits import RemovedNode
from qdqtool.results import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class StripReport(Report):
    """The result of ``strip``.

    Attributes:
        model: The input model.
        output: The ``.onnx`` file that was written.
        external_data: The data file of the output, if any.
        removed: Every DQ that was removed.
        kept: Every Q or DQ that stays, with the reason.
        restored: Every Relu and Clip that was inserted again because the range of a Q had replaced it.
        warnings: Operations of the quantized model that are missing in the float model.
        sizes: File sizes.
    """

    model: str
    output: str
    external_data: str | None
    removed: tuple[RemovedNode, ...]
    kept: tuple[NodeReason, ...]
    warnings: tuple[str, ...]
    sizes: Sizes
    restored: tuple[RestoredNode, ...] = ()


def strip_model(
    model: str | Path | Model,
    output: str | Path,
    *,
    external_data: ExternalData = ExternalData.AUTO,
    drop_clipping: bool = False,
) -> StripReport:
    """Remove every Q/DQ from a model and write the result.

    Pairs are bypassed; stored codes become float constants, dequantized by the canonical arithmetic. Codes that are
    graph inputs or outputs, or that feed other operators, stay and are reported. If a quantizer removed a Relu or Clip
    because the range of a Q replaces it, the Relu or Clip is restored.

    Args:
        model: The ``.onnx`` file, or a loaded model. It is not changed.
        output: The ``.onnx`` file to write.
        external_data: Whether weights are stored in a second file.
        drop_clipping: Whether to write the result even if a Q may replace a Relu or Clip that cannot be restored. The
            report then has a warning for each.
    """
    source = load_source(model, output)
    stripped = strip_from(source)
    if stripped.report.warnings and not drop_clipping:
        lost, *others = stripped.report.warnings
        more = f" (and {len(others)} more)" if others else ""
        raise ModelError(
            f"the float model would compute other results than the quantized model: {lost}{more}",
            hint="`--drop-clipping` writes it anyway",
        )
    require_loadable(stripped.model, source)
    saved = save_model(stripped.model, output, external_data=external_data)
    return StripReport(
        model=str(source.path or ""),
        output=str(saved.model),
        external_data=str(saved.data) if saved.data else None,
        removed=stripped.report.removed,
        kept=stripped.report.kept,
        restored=stripped.report.restored,
        warnings=stripped.report.warnings,
        sizes=Sizes(before=model_bytes(source), after=saved.bytes),
    )
