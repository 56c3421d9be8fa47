"""The strip job: take Q/DQ out of a model again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from qdqtool.graph.io.external import model_bytes
from qdqtool.graph.io.load import load_source
from qdqtool.graph.io.save import ExternalData, Sizes, save_model
from qdqtool.graph.model import Model
from qdqtool.insertion.strip import KeptNode, RemovedNode, strip_from
from qdqtool.running.loadable import require_loadable


@dataclass(frozen=True, slots=True, kw_only=True)
class StripReport:
    """What strip did.

    Attributes:
        model: The input.
        output: The ``.onnx`` file written.
        external_data: The data file beside it, if any.
        removed: Every DQ that was taken out.
        kept: Every Q or DQ that stays, with the reason.
        warnings: What the float model lacks that the quantized one did.
        sizes: File sizes.
    """

    model: str
    output: str
    external_data: str | None
    removed: tuple[RemovedNode, ...]
    kept: tuple[KeptNode, ...]
    warnings: tuple[str, ...]
    sizes: Sizes


def strip_model(
    model: str | Path | Model, output: str | Path, *, external_data: ExternalData = ExternalData.AUTO
) -> StripReport:
    """Take every Q/DQ out of a model and write the result.

    Pairs are bypassed; stored codes become float constants, dequantized by the canonical arithmetic. What cannot go
    (codes that are graph inputs or outputs, or feed other operators) stays and is reported.

    Args:
        model: The ``.onnx`` file, or a loaded model. It is not changed.
        output: The ``.onnx`` file to write.
        external_data: Where weights are stored.

    Raises:
        ModelError: The model cannot be read, or the reference loads it and not the result.
        OutputError: The output cannot be written.
    """
    source = load_source(model, output)
    stripped = strip_from(source)
    require_loadable(stripped.model, source)
    saved = save_model(stripped.model, output, external_data=external_data)
    return StripReport(
        model=str(source.path or ""),
        output=str(saved.model),
        external_data=str(saved.data) if saved.data else None,
        removed=stripped.report.removed,
        kept=stripped.report.kept,
        warnings=stripped.report.warnings,
        sizes=Sizes(before=model_bytes(source), after=saved.bytes),
    )
