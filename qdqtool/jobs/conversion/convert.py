"""Convert a float model: quantize, validate, check, build; write all files and one report into a folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from qdqtool.accuracy.checking.report import CheckReport
from qdqtool.jobs.conversion.folder import FileNames, Staging, check_folder, staging
from qdqtool.jobs.conversion.options import ConvertOptions, ConvertProgress, paths_in
from qdqtool.jobs.conversion.report import QUESTION, STEPS, ConversionReport, MeasuredOn, StepReport
from qdqtool.jobs.conversion.steps import Conversion, Source, measured_on
from qdqtool.jobs.quantize_report import QuantizeReport
from qdqtool.jobs.verdict import judge, reasons_of, word_of
from qdqtool.models.graph.io.external import external_files
from qdqtool.models.graph.io.load import load_model
from qdqtool.models.graph.model import Model
from qdqtool.quantization.preparation.cached_ranges import CachedRanges
from qdqtool.results import Judgement, exit_code
from qdqtool.samples.request import FileData, RandomData


def convert(
    model: str | Path | Model,
    data: str | Path | FileData | RandomData | CachedRanges | None,
    output: str | Path,
    options: ConvertOptions | None = None,
    progress: ConvertProgress | None = None,
    *,
    page: Callable[[bytes, str, Path], bytes],
) -> ConversionReport:
    """Quantize a float model, validate and check the result, and build an engine from it.

    Each step has the gates of its command. The first missed gate ends the conversion: the report then names it, and the
    later steps are ``not reached``. The folder gets the Q/DQ model, its plan and ranges, a picture of the first images
    if the data is images, the engine with its manifest, ``report.json`` and its page ``report.html``. Files of an
    earlier conversion in the same folder are replaced or removed; other files stay.

    Args:
        model: The ``.onnx`` file, or a loaded model. It is not changed.
        data: Calibration data, a request for random data, or existing ranges. Weight-only modes accept None.
        output: The folder; it is created if it does not exist.
        options: The options of each step; default int8 for TensorRT, with an engine.
        progress: Functions that are called for each step, sample and layer.
        page: Returns the page ``report.html`` for the JSON of the report, its file name and the folder with the files.
    """
    options, folder = options or ConvertOptions(), Path(output)
    options.validate()
    builder = options.builder()
    given = model if isinstance(model, Model) else load_model(model)
    names = FileNames.of(given.path, options.quantize.recipe.quantize_mode)
    earlier = check_folder(folder, names, [*_inputs(given, data), *options.files()])
    with staging(folder, names, earlier) as aside:
        conversion = Conversion(given, data, options, builder, aside, progress or ConvertProgress())
        steps = _run(conversion)
        return aside.publish(_report(conversion, steps, aside), page)


def _inputs(model: Model, data: Source) -> list[Path]:
    named = Path(data) if isinstance(data, str) else data
    own = [] if model.path is None else [model.path]
    return [*own, *external_files(model.proto, model.folder), *paths_in(named)]


def _run(conversion: Conversion) -> list[StepReport]:
    """Run the steps until one fails."""
    steps: list[StepReport] = []
    for name in STEPS:
        if name == "build" and conversion.builder is None:
            steps.append(StepReport(step=name, state="not asked for"))
        elif any(each.state == "failed" for each in steps):
            steps.append(StepReport(step=name, state="not reached"))
        else:
            steps.append(conversion.run(name))
    return steps


def _report(conversion: Conversion, steps: list[StepReport], aside: Staging) -> ConversionReport:
    failed = next((each for each in steps if each.state == "failed"), None)
    judgements = judge([("", each.report) for each in steps if each is not failed], "--check-min-sqnr")
    word = word_of(judgements) if failed is None else "failed"
    code = exit_code(word, strict=conversion.options.strict) if failed is None else failed.exit_code or 1
    return ConversionReport(
        model=str(conversion.model.path or ""),
        folder=str(aside.folder),
        passed=failed is None,
        exit_code=code,
        failed=None if failed is None else failed.step,
        measured_on=_measured_on(conversion, steps),
        steps=tuple(steps),
        files=aside.written(),
        removed=(),
        verdict=word,
        reasons=(*_failure(failed), *reasons_of(judgements)),
    )


def _failure(failed: StepReport | None) -> tuple[Judgement, ...]:
    if failed is None:
        return ()
    reason = failed.message or ", ".join(failed.missed) or "no reason is given"
    return (Judgement(QUESTION[failed.step], "failed", f"{failed.step}: {reason}", failed.hint or ""),)


def _measured_on(conversion: Conversion, steps: list[StepReport]) -> MeasuredOn | None:
    reports = {each.step: each.report for each in steps}
    quantized, checked = reports["quantize"], reports["check"]
    if not isinstance(quantized, QuantizeReport) or not isinstance(checked, CheckReport):
        return None
    return measured_on(conversion.data, conversion.options.quantize, quantized, checked)
