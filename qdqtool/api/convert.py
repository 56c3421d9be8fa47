"""``convert`` for Python code."""

from __future__ import annotations

import typing
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

from qdqtool.api.any_data import DataLike, read_options, take_source
from qdqtool.api.keywords import ConvertKeywords, EngineKeywords, checked
from qdqtool.api.options import build_options, check_options, quantize_options, settled
from qdqtool.api.quantize import with_validation
from qdqtool.api.reports import report_files
from qdqtool.engines.build.options import BuildOptions
from qdqtool.errors import UsageError
from qdqtool.jobs.conversion import convert as convert_job
from qdqtool.jobs.conversion.options import ConvertOptions, ConvertProgress
from qdqtool.jobs.conversion.report import ConversionReport
from qdqtool.jobs.quantize import QuantizeOptions
from qdqtool.linting.policy import Policy
from qdqtool.models import targets
from qdqtool.models.graph.io.load import ModelLike, as_source
from qdqtool.quantization.preparation.cached_ranges import CachedRanges
from qdqtool.reports.page.write import page_of_document

_OF_CHECK = {
    "check_min_sqnr": "min_sqnr",
    "min_cosine": "min_cosine",
    "min_agreement": "min_agreement",
    "max_steps": "max_steps",
    "max_weight_steps": "max_weight_steps",
    "check_max_metric_loss": "max_metric_loss",
    "check_profile": "profile",
    "save_outputs": "save_outputs",
}
"""Keywords of the check, with their names in ``check_model``."""
_OF_POLICY = ("validate_targets", "parser", "select", "extend_select", "ignore")
_OF_OTHERS_TOO = {"compute_capabilities"}
"""Keywords of the engine that mean something without one."""


def convert(
    model: ModelLike,
    data: DataLike | CachedRanges | None,
    output: str | Path,
    options: ConvertOptions | None = None,
    progress: ConvertProgress | None = None,
    **keywords: Unpack[ConvertKeywords],
) -> ConversionReport:
    """Quantize a float model, validate and check the result, and build an engine from it.

    Each step has the gates of its command. The first that is missed ends the conversion; the report then says which,
    and the later steps are ``not reached``. The folder gets the Q/DQ model, its plan and ranges, the engine with its
    manifest, ``report.json`` and its page ``report.html``. The files of an earlier conversion in the same folder are
    replaced or removed; other files stay.

    Args:
        model: The model. It is not changed.
        data: Calibration data, that it is random, or ranges that were found before. Weight-only modes need none and
            take None.
        output: The folder. It is made if it does not exist.
        options: What is done; default int8 for TensorRT, with an engine.
        progress: Told of every step, sample and layer.
        keywords: In place of ``options``: options of ``qdqtool convert``, with ``_`` for ``-``. Settings files and
            recipes are read by the command only.

    Raises:
        ArgumentError: An argument is of no accepted kind, or an option is unknown or given twice.
        CapabilityError: ONNX Runtime or the builder is absent. The folder is as it was.
        ModelError: The model cannot be read. The folder is as it was.
        UsageError: The options do not fit each other, the model or the data, or a file is in the way. The folder is as
            it was.
        OutputError: A file cannot be written.
    """
    with report_files(keywords, "convert", model) as files:
        given = checked(keywords, ConvertKeywords, "convert")
        reading, allow_constant = read_options(given), given.get("allow_constant_data", False)
        source, samples = as_source(model), take_source(data, given)
        chosen = settled(options, given, _options)
        chosen = replace(chosen, quantize=with_validation(chosen.quantize, reading, allow_constant))
        return files.write(convert_job.convert(source, samples, output, chosen, progress, page=page_of_document))


def _options(given: dict[str, Any]) -> ConvertOptions:
    """Return the options that keywords say."""
    known: dict[str, Any] = {name: given.pop(name) for name in ("fail_on", "blame", "backend") if name in given}
    if "validate_baseline" in given:
        known["known_findings"] = given.pop("validate_baseline")
    checks = {name: given.pop(keyword) for keyword, name in _OF_CHECK.items() if keyword in given}
    checks |= {"metric": given["metric"]} if "metric" in given else {}
    judged = {name: given.pop(name) for name in _OF_POLICY if name in given}
    build = _build(given)
    gpus = build.compute_capabilities if build is not None else given.pop("compute_capabilities", ())
    quantized = quantize_options(given)
    return ConvertOptions(
        quantize=quantized,
        policy=_policy(judged, quantized, gpus),
        check=check_options(checks),
        build=build,
        **known,
    )


def _build(given: dict[str, Any]) -> BuildOptions | None:
    """Return the options of the engine, which are taken out of ``given``; None for no engine."""
    names = set(typing.get_type_hints(EngineKeywords)) | {"build_skip_validate"}
    if given.pop("no_build", False):
        idle = sorted((names - _OF_OTHERS_TOO) & given.keys())
        if idle:
            raise UsageError(f"{idle[0]} is for an engine, and no_build asks for none")
        return None
    asked = {name.removeprefix("build_"): given.pop(name) for name in names if name in given}
    return build_options(asked)


def _policy(judged: dict[str, Any], quantized: QuantizeOptions, gpus: Any) -> Policy:
    return Policy(
        targets=tuple(judged.get("validate_targets", ())) or (quantized.recipe.target,),
        compute_capabilities=targets.capabilities(gpus),
        parser=judged.get("parser"),
        select=tuple(judged["select"]) if "select" in judged else None,
        extend_select=tuple(judged.get("extend_select", ())),
        ignore=tuple(judged.get("ignore", ())),
    )
