"""The samples on which the quantized model is checked: such as chose nothing, where there are any."""

from dataclasses import replace
from pathlib import Path

from qdqtool.accuracy.checking.report import CheckReport
from qdqtool.jobs.conversion.report import MeasuredOn, Part
from qdqtool.jobs.quantize import QuantizeOptions
from qdqtool.jobs.quantize_report import QuantizeReport
from qdqtool.quantization.preparation.cached_ranges import CachedRanges
from qdqtool.samples.request import DataRequest, FileData, RandomData
from qdqtool.samples.split import LEAST_HELD

Source = str | Path | FileData | RandomData | CachedRanges | None
"""Calibration data, a request for random data, ranges that were found before, or nothing."""


def request_for(data: Source, options: QuantizeOptions) -> DataRequest:
    """Return the data of the check.

    Validation data where it is given; else the part of the calibration data that ``quantize`` held back; of data beside
    a ranges file all, since the ranges were found before. Random inputs where there is nothing else.

    Args:
        data: What the model is quantized with.
        options: How it is quantized.
    """
    held_back = not isinstance(data, CachedRanges)
    if options.validation_data is not None:
        data, held_back = options.validation_data, False
    elif isinstance(data, CachedRanges):
        data = data.data
    if isinstance(data, str | Path):
        data = FileData(path=Path(data))
    values = options.recipe.input_values
    if isinstance(data, FileData):
        return DataRequest(
            path=data.path,
            samples=data.samples,
            allow_constant=data.allow_constant,
            held_back=held_back,
            options=replace(data.options, preview=None),  # quantize wrote it
            input_values=values,
        )
    if isinstance(data, RandomData):
        return DataRequest(seed=data.seed, samples=data.samples, held_back=True, input_values=values)
    return DataRequest(input_shapes=options.recipe.input_shapes, input_values=values)


def measured_on(data: Source, options: QuantizeOptions, quantized: QuantizeReport, checked: CheckReport) -> MeasuredOn:
    """Return on which samples the check measured, and whether they may have chosen something.

    Args:
        data: What the model was quantized with.
        options: How it was quantized.
        quantized: The report of that, which says why nothing was held back.
        checked: The report of the check.
    """
    found, accuracy = checked.data, quantized.accuracy
    request = request_for(data, options)
    reason = accuracy.reason if accuracy is not None else ""
    if options.validation_data is not None:
        return MeasuredOn(data=found.source, samples=found.samples, part="validation data", reason=reason)
    if data is None or (isinstance(data, CachedRanges) and data.data is None):
        return MeasuredOn(data=found.source, samples=found.samples, part="random")
    # Without a measurement of quantize all samples are used only where they are fewer than the least that is held back.
    is_measured = accuracy is not None and not accuracy.problem
    is_held = accuracy.held_back if accuracy is not None and is_measured else found.samples >= LEAST_HELD
    part: Part = "held back" if request.held_back and is_held else "all"
    return MeasuredOn(data=found.source, samples=found.samples, part=part, reason=reason)
