"""``convert`` for Python code."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Unpack

from qdqtool.api.any_data import DataLike
from qdqtool.api.checked import values_of, with_keywords
from qdqtool.api.keywords import ConvertKeywords
from qdqtool.api.reports import report_files
from qdqtool.engines.tensorrt import gpus
from qdqtool.jobs.conversion import convert as convert_job
from qdqtool.jobs.conversion.options import ConvertOptions, ConvertProgress
from qdqtool.jobs.conversion.report import ConversionReport
from qdqtool.jobs.conversion.request import convert_request
from qdqtool.jobs.conversion.union import split
from qdqtool.linting.policy import Policy
from qdqtool.models import targets
from qdqtool.models.graph.io.load import ModelLike, as_source
from qdqtool.options import PYTHON, Values, build
from qdqtool.reports.page.write import page_of_document


@with_keywords
def convert(
    model: ModelLike,
    data: DataLike | None,
    output: str | Path,
    progress: ConvertProgress | None = None,
    **keywords: Unpack[ConvertKeywords],
) -> ConversionReport:
    """Quantize a float model, validate and check the result, and build an engine from it.

    Each step has the gates of its command. The first missed gate ends the conversion: the report then names it, and the
    later steps are ``not reached``. The folder gets the Q/DQ model, its plan and ranges, the engine with its manifest,
    ``report.json`` and its page ``report.html``. Files of an earlier conversion in the same folder are replaced or
    removed; other files stay.

    Args:
        model: The model. It is not changed.
        data: Calibration data; None for weight-only modes, or with ``random_calibration`` or ``calibration_cache``.
        output: The folder; it is created if it does not exist.
        progress: Functions that are called for each step, sample and layer.
        keywords: Options of ``qdqtool convert``, with ``_`` for ``-``. Settings files and recipes are not read.

    Raises:
        ArgumentError: An argument is not of an accepted kind, or an option is unknown.
        CapabilityError: ONNX Runtime or the builder is absent. The folder is unchanged.
        ModelError: The model cannot be read. The folder is unchanged.
        UsageError: The options do not fit each other, the model or the data, or a file is in the way. The folder is
            unchanged.
        OutputError: A file cannot be written.
    """
    with report_files(keywords, "convert", model) as files:
        source = as_source(model)
        values = values_of(keywords, "convert", "convert", calib_data=data)
        samples, options = convert_request(values, values.keys(), PYTHON)
        options = _judged(options, split(values)["validate"], values.get("compute_capabilities"))
        return files.write(convert_job.convert(source, samples, output, options, progress, page=page_of_document))


def _judged(options: ConvertOptions, values: Values, named: str | None) -> ConvertOptions:
    """Return the options with the rules for the quantized model."""
    judged = values.pop("targets", None) or (options.target,)
    capabilities = targets.capabilities(gpus.parse(named) if named is not None else ())
    baseline, fail_on = values.pop("baseline", None), values.pop("fail_on", options.fail_on)
    policy = build(Policy, {"parser": None, **values}, targets=judged, compute_capabilities=capabilities)
    return replace(options, policy=policy, known_findings=baseline, fail_on=fail_on)
