"""The four steps of a conversion; each does the same as its command, with the same gates."""

import copy
import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from qdqtool.accuracy.checking.check_blame import BlameRequest
from qdqtool.accuracy.checking.report import CheckReport
from qdqtool.engines.build.refusal import refused_report
from qdqtool.engines.tensorrt.builder import BuildRefusedError
from qdqtool.engines.tensorrt.tensorrt_builder import TensorRT
from qdqtool.errors import GateError, QdqError, plural
from qdqtool.jobs.build import build_engine
from qdqtool.jobs.check import check_model
from qdqtool.jobs.conversion.folder import Staging
from qdqtool.jobs.conversion.options import ConvertOptions, ConvertProgress
from qdqtool.jobs.conversion.report import MeasuredOn, Part, StepName, StepReport
from qdqtool.jobs.quantize import QuantizeOptions, quantize_model
from qdqtool.jobs.quantize_report import QuantizeReport
from qdqtool.jobs.quantize_unchanged import nothing_to_add
from qdqtool.jobs.validate import validate_files
from qdqtool.linting.baseline import read_baseline, without_known
from qdqtool.models.graph.model import Model
from qdqtool.quantization.planning.existing_pairs import settle_model
from qdqtool.quantization.planning.options import Existing
from qdqtool.quantization.preparation.cached_ranges import CachedRanges
from qdqtool.quantization.ranges import encodings
from qdqtool.results import Report
from qdqtool.samples.options import ReadOptions
from qdqtool.samples.preprocessing import ImagePreprocessing
from qdqtool.samples.request import DataRequest, FileData, RandomData, open_feeds
from qdqtool.samples.split import LEAST_HELD

Value = TypeVar("Value")

MOST_DRAWN = 4
"""Samples in the picture of preprocessed images, which the page contains."""


def relocated(value: Value, folder: Path) -> Value:
    """Return a report or text in which paths in ``folder`` become paths in its parent.

    Args:
        value: A dataclass, a container, a text, or any other value, which is returned unchanged.
        folder: A temporary folder; its name occurs only in such paths.
    """
    found = _changed(value, f"{folder.name}/")
    assert isinstance(found, type(value))
    return found


def _changed(value: object, part: str) -> object:
    if isinstance(value, str):
        # Enumerations of strings are strings too.
        return value.replace(part, "") if part in value else value
    if isinstance(value, tuple):
        return tuple(_changed(each, part) for each in value)
    if isinstance(value, list):
        return [_changed(each, part) for each in value]
    if isinstance(value, Mapping):
        return {key: _changed(each, part) for key, each in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _changed_fields(value, part)
    return value


def _changed_fields(value: object, part: str) -> object:
    assert dataclasses.is_dataclass(value)
    found = copy.copy(value)
    for field in dataclasses.fields(value):
        # Reports are frozen.
        object.__setattr__(found, field.name, _changed(getattr(value, field.name), part))
    return found


Source = str | Path | FileData | RandomData | CachedRanges | None
"""Calibration data, a request for random data, existing ranges, or None."""


def request_for(data: Source, options: QuantizeOptions) -> DataRequest:
    """Return the data of the check.

    This is the validation data, if given; else the hold-out samples of the calibration data. If a ranges file comes
    with data, all samples of the data are used, since no ranges are measured on them. Without any data, inputs are
    random.
    """
    held_back = not isinstance(data, CachedRanges)
    if options.validation_data is not None:
        data, held_back = options.validation_data, False
    elif isinstance(data, CachedRanges):
        data = data.data
    values, files = options.recipe.input_values, _files_of(data)
    if files is not None:
        return DataRequest(
            path=files.path,
            samples=files.samples,
            allow_constant=files.allow_constant,
            held_back=held_back,
            options=files.options,
            input_values=values,
        )
    if isinstance(data, RandomData):
        return DataRequest(seed=data.seed, samples=data.samples, held_back=True, input_values=values)
    return DataRequest(input_shapes=options.recipe.input_shapes, input_values=values)


def measured_on(data: Source, options: QuantizeOptions, quantized: QuantizeReport, checked: CheckReport) -> MeasuredOn:
    """Return the samples that the check used, and whether selection samples were among them.

    Args:
        data: The data with which the model was quantized.
        options: How the model was quantized.
        quantized: The report of ``quantize``, which says why no samples were held out.
        checked: The report of the check.
    """
    found, accuracy = checked.data, quantized.accuracy
    request = request_for(data, options)
    reason = accuracy.reason if accuracy is not None else ""
    if options.validation_data is not None:
        return MeasuredOn(data=found.source, samples=found.samples, part="validation data", reason=reason)
    if data is None or (isinstance(data, CachedRanges) and data.data is None):
        return MeasuredOn(data=found.source, samples=found.samples, part="random")
    # If quantize measured nothing, all samples are used only if they are too few to hold some out.
    is_measured = accuracy is not None and not accuracy.problem
    is_held = accuracy.held_back if accuracy is not None and is_measured else found.samples >= LEAST_HELD
    part: Part = "held back" if request.held_back and is_held else "all"
    return MeasuredOn(data=found.source, samples=found.samples, part=part, reason=reason)


MISSED = 1
UNREADABLE = 3


@dataclass(frozen=True, slots=True)
class Conversion:
    """One conversion: the data that its steps share.

    Attributes:
        model: The float model.
        data: Calibration data, random data, ranges, or None in modes that need none.
        options: The request of the user.
        builder: The builder of the engine; None for no engine.
        staging: The temporary folder of the files.
        progress: Functions that are called for each step, sample and layer.
    """

    model: Model
    data: Source
    options: ConvertOptions
    builder: TensorRT | None
    staging: Staging
    progress: ConvertProgress

    def run(self, step: StepName) -> StepReport:
        """Return the result of a step.

        Raises:
            QdqError: ``quantize`` failed, but not at a gate; nothing was written.
        """
        self.progress.step(step)
        functions: dict[StepName, Callable[[], StepReport]] = {
            "quantize": self._quantize,
            "validate": self._validate,
            "check": self._check,
            "build": self._build,
        }
        try:
            found = functions[step]()
        except QdqError as error:
            if step == "quantize" and not isinstance(error, GateError):
                raise _with_final_paths(error, self.staging) from None
            found = _failed(step, error, self.staging.final("model"))
        return relocated(found, self.staging.place)

    def _quantize(self) -> StepReport:
        asked, made = self.options.quantize, self.staging.made
        is_foreign = isinstance(self.data, CachedRanges) and encodings.recognize(self.data.path) is not None
        has_ranges = asked.recipe.mode.needs_ranges and not is_foreign
        # If every layer is already quantized, there is no plan.
        keeps = asked.recipe.existing is Existing.KEEP
        if not keeps or nothing_to_add(settle_model(self.model, asked.recipe)) is None:
            asked = replace(asked, plan_file=made("plan"), ranges_file=made("ranges") if has_ranges else None)
        samples, layers = self.progress.samples, self.progress.layers
        report = quantize_model(self.model, self.data, made("model"), asked, samples, layers)
        how, data = report.calibration.preprocessing if report.calibration is not None else None, _files_of(self.data)
        if isinstance(how, ImagePreprocessing) and data is not None:
            drawn = replace(data, samples=MOST_DRAWN, options=ReadOptions(preview=made("preview"), recorded=how))
            open_feeds(settle_model(self.model, asked.recipe).model, drawn)
        return _ended("quantize", report)

    def _validate(self) -> StepReport:
        policy = self.options.judged_by().before_move(self.staging.final("model"))
        report = relocated(validate_files([self.staging.made("model")], policy), self.staging.place)
        if self.options.known_findings is not None:
            known = self.options.known_findings
            report = without_known(report, read_baseline(known), known.parent).report
        if report.unreadable:
            error = report.unreadable[0].error
            return _ended("validate", report, message=error, passed=False, exit_code=UNREADABLE)
        fail_on, count = self.options.fail_on, report.summary
        passed = fail_on == "never" or not report.reaches(fail_on)
        warnings = f", {plural(count.warnings, 'warning')}" if fail_on == "warning" else ""
        message = f"the quantized model has {plural(count.errors, 'error')}{warnings}"
        return _ended("validate", report, (f"fail-on {fail_on}",), message, passed=passed)

    def _check(self) -> StepReport:
        report = check_model(
            self.staging.made("model"),
            baseline=self.model,
            data=request_for(self.data, self.options.quantize),
            options=self.options.check,
            progress=self.progress.samples,
            blame=BlameRequest(always=self.options.blame, tick=self.progress.layers),
        )
        missed = (gate.name for gate in report.gates if not gate.passed)
        return _ended("check", report, missed, next(iter(report.failures), None), passed=report.passed)

    def _build(self) -> StepReport:
        assert self.builder is not None
        assert self.options.build is not None
        report = build_engine(
            self.staging.made("model"),
            self.staging.made("engine"),
            backend=self.builder.id,
            options=replace(self.options.build, calib_data=_files_of(self.data)),
        )
        gates = [gate for gate in report.gates if not gate.passed]
        missed = [f"require-precision {gate.gate}" for gate in gates]
        message = "; ".join(f"{gate.gate}: {gate.found}" for gate in gates)
        return _ended("build", report, missed, message, passed=report.passed)


def _files_of(data: Source) -> FileData | None:
    """Return samples from files, or None; they have no preview, because ``quantize`` already wrote it."""
    data = data.data if isinstance(data, CachedRanges) else data
    if isinstance(data, str | Path):
        return FileData(path=Path(data))
    return replace(data, options=replace(data.options, preview=None)) if isinstance(data, FileData) else None


def _ended(
    step: StepName,
    report: Report,
    missed: Iterable[str] = (),
    message: str | None = None,
    *,
    passed: bool = True,
    exit_code: int = MISSED,
) -> StepReport:
    if passed:
        return StepReport(step=step, state="passed", exit_code=0, report=report)
    missed = tuple(missed)
    return StepReport(step=step, state="failed", exit_code=exit_code, missed=missed, message=message, report=report)


def _failed(step: StepName, error: QdqError, model: Path) -> StepReport:
    """Return the report of a step that an error ended, with the message of its command."""
    return StepReport(
        step=step,
        state="failed",
        exit_code=error.exit_code,
        missed=(error.stage,) if isinstance(error, BuildRefusedError) else (),
        message=error.message,
        hint=error.hint,
        report=refused_report(model, error) if isinstance(error, BuildRefusedError) else None,
    )


def _with_final_paths(error: QdqError, staging: Staging) -> QdqError:
    """Return the error with the final paths in its text."""
    error.message = relocated(error.message, staging.place)
    error.hint = None if error.hint is None else relocated(error.hint, staging.place)
    return error
