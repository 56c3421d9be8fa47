"""The normalize job: rewrite foreign forms of quantization as Q/DQ, and report the effect on the outputs."""

from __future__ import annotations

from pathlib import Path

from qdqtool.linting.repair import forms
from qdqtool.linting.repair.fix_loop import Permission, Repair
from qdqtool.linting.repair.proof import Prover
from qdqtool.linting.repair.report import NormalizeReport, Repaired
from qdqtool.models.graph.io.load import load_source
from qdqtool.models.graph.io.save import save_model
from qdqtool.models.graph.model import Model, Transformed
from qdqtool.models.options import ExternalData
from qdqtool.models.running.loadable import require_loadable
from qdqtool.models.running.ort_cpu import reference
from qdqtool.samples.request import DataRequest


def normalize_model(
    model: str | Path | Model,
    output: str | Path,
    *,
    data: DataRequest | None = None,
    external_data: ExternalData = ExternalData.AUTO,
) -> NormalizeReport:
    """Rewrite foreign forms of quantization as Q/DQ and write the result.

    Args:
        model: The ``.onnx`` file, or a loaded model. It is not changed.
        output: The ``.onnx`` file to write.
        data: The data from which outputs before and after are computed; default is random inputs with a fixed seed.
        external_data: Whether weights are stored in a second file.
    """
    source = load_source(model, output)
    normalized = normalized_model(source, data or DataRequest())
    saved = save_model(normalized.model, output, external_data=external_data)
    return NormalizeReport(
        model=str(source.path or "<memory>"),
        output=str(saved.model),
        external_data=str(saved.data) if saved.data else None,
        repaired=normalized.report,
    )


def normalized_model(model: Model, data: DataRequest) -> Transformed[Repaired]:
    """Normalize a model in memory like :func:`normalize_model`; neither the given model nor a file is changed."""
    reference(model)
    repair = Repair(model, forms.find_all, Prover(model, data), Permission.REWRITE)
    repaired = repair.run()
    if repaired.unproven is not None:
        require_loadable(repair.model, model)
    return Transformed(repair.model, repaired)
