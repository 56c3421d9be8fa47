"""``calibrate``, ``quantize_model`` and ``measure_sensitivity`` for Python code."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

from qdqtool.api.any_data import DataLike, as_place, read_options, take_data, take_source
from qdqtool.api.keywords import CalibrateKeywords, QuantizeKeywords, SensitivityKeywords, checked
from qdqtool.api.options import calibrate_recipe, quantize_options, sensitivity_options, settled
from qdqtool.api.outputs import write_or_keep
from qdqtool.api.reports import report_files
from qdqtool.errors import UsageError
from qdqtool.jobs import calibrate as calibrate_job
from qdqtool.jobs import quantize as quantize_job
from qdqtool.jobs import sensitivity as sensitivity_job
from qdqtool.jobs.calibrate import CalibrateReport, CalibrationPlace
from qdqtool.jobs.quantize import QuantizeOptions
from qdqtool.jobs.quantize_report import QuantizeReport
from qdqtool.jobs.sensitivity import SensitivityOptions
from qdqtool.jobs.sensitivity_report import SensitivityReport
from qdqtool.models.graph.io.load import ModelLike, as_source
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.quantization.preparation.cached_ranges import CachedRanges
from qdqtool.quantization.ranges.shard import Shard
from qdqtool.quantization.ranges.types import Ranges
from qdqtool.samples.feeds import Progress
from qdqtool.samples.read_options import ReadOptions
from qdqtool.samples.request import FileData, RandomData


def calibrate(
    model: ModelLike,
    data: DataLike | None = None,
    recipe: Recipe | None = None,
    progress: Progress | None = None,
    shard: Shard | None = None,
    **options: Unpack[CalibrateKeywords],
) -> Ranges:
    """Run a float model over data and return the range of every tensor that ``quantize_model`` would quantize.

    Args:
        model: The float model. It is not changed.
        data: The samples; None with ``random_calibration=True`` only.
        recipe: What is to be quantized; default int8 for TensorRT.
        progress: Told of every sample.
        shard: Run these samples only; :func:`~qdqtool.merge_ranges` joins shards.
        options: In place of ``recipe``: options of ``qdqtool calibrate``, with ``_`` for ``-``; and ``samples``,
            ``allow_constant_data``, ``random_calibration``, ``seed`` and ``dask``.

    Raises:
        ArgumentError: An argument is of no accepted kind, or an option is unknown or given twice.
        ModelError: The model cannot be read.
        UsageError: The data does not fit the model, the model fails on a sample, or a tensor is not finite.
        CapabilityError: ONNX Runtime is not installed or cannot run the model, or the cluster cannot be used.
    """
    given = checked(options, CalibrateKeywords, "calibrate")
    place = CalibrationPlace(shard=shard, dask=given.pop("dask", None))
    source = as_source(model)
    samples = _required(take_data(data, given))
    return calibrate_job.calibrate(source, samples, settled(recipe, given, calibrate_recipe, "recipe"), progress, place)


def calibrate_to_file(
    model: ModelLike,
    data: DataLike | None,
    output: str | Path,
    recipe: Recipe | None = None,
    progress: Progress | None = None,
    shard: Shard | None = None,
    **options: Unpack[CalibrateKeywords],
) -> CalibrateReport:
    """As :func:`calibrate`, and write the ranges to a file.

    The file holds what is done from time to time, and at Ctrl-C; the same call goes on from there. A stream gets only
    the complete ranges.

    Raises:
        OutputError: The file cannot be written.
    """
    given = checked(options, CalibrateKeywords, "calibrate_to_file")
    place = CalibrationPlace(shard=shard, dask=given.pop("dask", None))
    source = as_source(model)
    samples = _required(take_data(data, given))
    chosen = settled(recipe, given, calibrate_recipe, "recipe")
    return calibrate_job.calibrate_to_file(source, samples, output, chosen, progress, place)


def quantize_model(
    model: ModelLike,
    data: DataLike | CachedRanges | None = None,
    output: str | Path | None = None,
    options: QuantizeOptions | None = None,
    progress: Progress | None = None,
    tick: Progress | None = None,
    **keywords: Unpack[QuantizeKeywords],
) -> QuantizeReport:
    """Quantize a float model. The result passes ``validate`` for its target.

    One error does not stop it: QN504 at a tensor that the report names as ``strays`` too, of which an outlier leaves
    nothing.

    Args:
        model: The float model. It is not changed.
        data: Calibration data, or ranges that were found before. Weight-only modes need none. A fifth of the samples
            chooses nothing but the final ranges: accuracy is measured on it.
        output: The ``.onnx`` file to write; None to get the model as ``output_model`` of the report.
        options: What is quantized and how it is stored; default int8 for TensorRT.
        progress: Told of every calibration sample.
        tick: Told of every run of a sample while layers are measured for a goal, and how many there are at most.
        keywords: In place of ``options``: options of ``qdqtool quantize``, with ``_`` for ``-``.

    Raises:
        ArgumentError: An argument is of no accepted kind, or an option is unknown or given twice.
        ModelError: The model cannot be read, or the reference loads it and not the result.
        UsageError: The model is quantized already and the recipe does not say what becomes of that; data, ranges or
            patterns do not fit the model, nothing can be quantized, or the result passes 2 GiB and has no output.
        CapabilityError: ONNX Runtime is not installed or cannot run the model.
        GateError: The result would not pass ``validate``, or no model keeps the accuracy. Nothing was written.
        OutputError: An output cannot be written.
    """
    with report_files(keywords, "quantize", model) as files:
        given = checked(keywords, QuantizeKeywords, "quantize_model")
        allow_constant, reading = given.get("allow_constant_data", False), read_options(given)
        source, samples = as_source(model), take_source(data, given)
        chosen = settled(options, given, quantize_options)
        chosen = with_validation(chosen, reading, allow_constant)
        report = write_or_keep(
            output,
            chosen,
            lambda path, final: quantize_job.quantize_model(source, samples, path, final, progress, tick),
        )
        return files.write(report)


def measure_sensitivity(
    model: ModelLike,
    data: DataLike | CachedRanges | None = None,
    options: SensitivityOptions | None = None,
    progress: Progress | None = None,
    tick: Progress | None = None,
    **keywords: Unpack[SensitivityKeywords],
) -> SensitivityReport:
    """Measure what each layer's quantization does to the outputs. No model is made.

    The model is prepared, calibrated and planned as ``quantize_model`` does it. All layers are measured in one session,
    on up to 8 samples that may choose something.

    Args:
        model: The float model. It is not changed.
        data: Calibration data, or ranges with data.
        options: What is quantized and measured.
        progress: Told of every calibration sample.
        tick: Told of every setting that was run.
        keywords: In place of ``options``: options of ``qdqtool sensitivity``, with ``_`` for ``-``.

    Raises:
        ArgumentError: An argument is of no accepted kind, or an option is unknown or given twice.
        ModelError: The model cannot be read.
        UsageError: The data does not fit the model or the metric, there is none, or nothing can be quantized.
        CapabilityError: ONNX Runtime is not installed or cannot run the model.
        OutputError: The file cannot be written.
    """
    with report_files(keywords, "sensitivity", model) as files:
        given = checked(keywords, SensitivityKeywords, "measure_sensitivity")
        source = as_source(model)
        samples = data if isinstance(data, CachedRanges) else _required(take_data(data, given))
        chosen = settled(options, given, sensitivity_options)
        return files.write(sensitivity_job.measure_sensitivity(source, samples, chosen, progress, tick))


def _required(data: FileData | RandomData | None) -> FileData | RandomData:
    if data is None:
        raise UsageError(
            "no calibration data is given, and nothing is ever calibrated on made-up data unasked",
            hint="pass data; or, for a trial, random_calibration=True",
        )
    return data


def with_validation(options: QuantizeOptions, reading: ReadOptions, allow_constant: bool) -> QuantizeOptions:
    """Return the options with validation data of any kind as a request.

    Args:
        options: The options.
        reading: How the calibration data is read: labels and preview are of that alone.
        allow_constant: Whether samples may hold one value throughout.

    Raises:
        ArgumentError: The data is of no accepted kind.
        UsageError: An array has no numbers.
    """
    if options.validation_data is None:
        return options
    return replace(options, validation_data=_file_data(options.validation_data, allow_constant, reading))


def _file_data(data: Any, allow_constant: bool, reading: ReadOptions) -> FileData:
    if isinstance(data, FileData):
        return replace(data, path=as_place(data.path))
    options = replace(reading, labels=None, preview=None)
    return FileData(path=as_place(data), allow_constant=allow_constant, options=options)
