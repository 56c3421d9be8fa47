"""``calibrate``, ``quantize_model`` and ``measure_sensitivity`` for Python code."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

from qdqtool.api.any_data import DataLike
from qdqtool.api.checked import values_of, with_keywords
from qdqtool.api.keywords import CalibrateKeywords, QuantizeKeywords, SensitivityKeywords
from qdqtool.api.outputs import write_or_keep
from qdqtool.api.reports import report_files
from qdqtool.jobs import calibrate as calibrate_job
from qdqtool.jobs import quantize as quantize_job
from qdqtool.jobs import sensitivity as sensitivity_job
from qdqtool.jobs.calibrate import CalibrateReport, CalibrationPlace
from qdqtool.jobs.quantize_report import QuantizeReport
from qdqtool.jobs.request import calibration_data, quantize_request, recipe_request, sensitivity_request
from qdqtool.jobs.sensitivity_report import SensitivityReport
from qdqtool.models.graph.io.load import ModelLike, as_source
from qdqtool.options import PYTHON
from qdqtool.quantization.ranges.shard import Shard
from qdqtool.quantization.ranges.types import Ranges
from qdqtool.samples.feeds import Progress


@with_keywords
def calibrate(
    model: ModelLike,
    data: DataLike | None = None,
    progress: Progress | None = None,
    shard: Shard | None = None,
    **keywords: Unpack[CalibrateKeywords],
) -> Ranges:
    """Run a float model over data and return the range of every tensor that ``quantize_model`` would quantize.

    Args:
        model: The float model. It is not changed.
        data: The samples; None only with ``random_calibration=True``.
        progress: Called after each sample, with the number of finished samples and of all samples.
        shard: The shard of the samples to run; :func:`~qdqtool.merge_ranges` merges the ranges of shards.
        keywords: Options of ``qdqtool calibrate``, with ``_`` for ``-``.

    Raises:
        ArgumentError: An argument is not of an accepted kind, or an option is unknown.
        ModelError: The model cannot be read.
        UsageError: The data does not fit the model, the model fails on a sample, or a tensor is not finite.
        CapabilityError: ONNX Runtime is not installed or cannot run the model, or the cluster cannot be used.
    """
    source = as_source(model)
    values = values_of(keywords, "calibrate", "calibrate", calib_data=data)
    place = CalibrationPlace(shard=shard, dask=values.pop("dask", None))
    recipe, samples = recipe_request(values), calibration_data(values, PYTHON)
    return calibrate_job.calibrate(source, samples, recipe, progress, place)


@with_keywords
def calibrate_to_file(
    model: ModelLike,
    data: DataLike | None,
    output: str | Path,
    progress: Progress | None = None,
    shard: Shard | None = None,
    **keywords: Unpack[CalibrateKeywords],
) -> CalibrateReport:
    """Calibrate like :func:`calibrate`, and write the ranges to a file.

    Partial results are written to the file regularly and at Ctrl-C; the same call continues from them. A stream gets
    only the complete ranges.

    Raises:
        OutputError: The file cannot be written.
    """
    source = as_source(model)
    values = values_of(keywords, "calibrate", "calibrate_to_file", calib_data=data)
    place = CalibrationPlace(shard=shard, dask=values.pop("dask", None))
    recipe, samples = recipe_request(values), calibration_data(values, PYTHON)
    return calibrate_job.calibrate_to_file(source, samples, output, recipe, progress, place)


@with_keywords
def quantize_model(
    model: ModelLike,
    data: DataLike | None = None,
    output: str | Path | None = None,
    progress: Progress | None = None,
    tick: Progress | None = None,
    **keywords: Unpack[QuantizeKeywords],
) -> QuantizeReport:
    """Quantize a float model. The result passes ``validate`` for its target.

    One error is allowed: QN504 at a tensor whose outlier rounds its other values to 0 (``strays`` in the report).

    Args:
        model: The float model. It is not changed.
        data: Calibration data. Weight-only modes and ``calibration_cache`` need none. A fifth of the samples is held
            out to measure the accuracy; these samples influence only the final ranges.
        output: The ``.onnx`` file to write; None to get the model as ``output_model`` of the report.
        progress: Called after each calibration sample, with the number of finished samples and of all samples.
        tick: Called for each run of a sample while layers are measured for an accuracy target, with the number of
            finished runs and the largest possible number.
        keywords: Options of ``qdqtool quantize``, with ``_`` for ``-``.

    Raises:
        ArgumentError: An argument is not of an accepted kind, or an option is unknown.
        ModelError: The model cannot be read, or the reference loads the model but not the result.
        UsageError: The model is already quantized and no option says how to handle its Q/DQ; data, ranges or patterns
            do not fit the model; nothing can be quantized; or the result is larger than 2 GiB and has no output.
        CapabilityError: ONNX Runtime is not installed or cannot run the model.
        GateError: The result would not pass ``validate``, or no model reaches the accuracy target. Nothing was written.
        OutputError: An output cannot be written.
    """
    with report_files(keywords, "quantize", model) as files:
        source = as_source(model)
        values = values_of(keywords, "quantize", "quantize_model", calib_data=data)
        samples, chosen = quantize_request(values, PYTHON)
        report = write_or_keep(
            output,
            chosen,
            lambda path, final: quantize_job.quantize_model(source, samples, path, final, progress, tick),
        )
        return files.write(report)


@with_keywords
def measure_sensitivity(
    model: ModelLike,
    data: DataLike | None = None,
    progress: Progress | None = None,
    tick: Progress | None = None,
    **keywords: Unpack[SensitivityKeywords],
) -> SensitivityReport:
    """Measure how quantizing each layer changes the outputs. No model is written.

    The model is prepared, calibrated and planned as ``quantize_model`` does it. All layers are measured in one session,
    on up to 8 selection samples.

    Args:
        model: The float model. It is not changed.
        data: Calibration data; with ``calibration_cache``, the data to measure on.
        progress: Called after each calibration sample, with the number of finished samples and of all samples.
        tick: Called for each setting, with the number of finished settings and of all settings.
        keywords: Options of ``qdqtool sensitivity``, with ``_`` for ``-``.

    Raises:
        ArgumentError: An argument is not of an accepted kind, or an option is unknown.
        ModelError: The model cannot be read.
        UsageError: The data does not fit the model or the metric, there is no data, or nothing can be quantized.
        CapabilityError: ONNX Runtime is not installed or cannot run the model.
        OutputError: The file cannot be written.
    """
    with report_files(keywords, "sensitivity", model) as files:
        source = as_source(model)
        values = values_of(keywords, "sensitivity", "measure_sensitivity", calib_data=data)
        samples, chosen = sensitivity_request(values, PYTHON)
        return files.write(sensitivity_job.measure_sensitivity(source, samples, chosen, progress, tick))
