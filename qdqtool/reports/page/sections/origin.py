"""The origin of the model: files, data, versions."""

from collections.abc import Iterator

from qdqtool.accuracy.checking.report import CheckReport
from qdqtool.errors import plural
from qdqtool.jobs.conversion.report import ConversionReport
from qdqtool.jobs.inspect_report import InspectReport
from qdqtool.jobs.quantize_report import QuantizeReport
from qdqtool.jobs.sensitivity_report import SensitivityReport
from qdqtool.quantization.calibration_report import CalibrationUsed
from qdqtool.reports.blocks import Block, Cell, Facts, State, text
from qdqtool.reports.kinds.check import data_origin
from qdqtool.reports.page.section import Section
from qdqtool.reports.page.sections.facts import builders, references, versions
from qdqtool.reports.saved.reading import step_source
from qdqtool.reports.saved.story import Story, bracketed


def blocks(story: Story) -> tuple[Block, ...]:
    """Return facts about model, data and versions."""
    facts = Facts(
        (
            ("Float model", text(story.float_model)),
            ("Quantized model", text(story.quantized_model)),
            *_quantization(story),
            *_data(story),
            ("Reference", text(references(story))),
            ("Builder", text(builders(story))),
            ("qdqtool", text(versions(story))),
        )
    )
    return (facts,)


def _quantization(story: Story) -> Iterator[tuple[str, Cell]]:
    quantize, sensitivity = story.first(QuantizeReport), story.first(SensitivityReport)
    if quantize is not None:
        yield "Mode and target", text(f"{quantize.mode} for {quantize.target}, opset {quantize.opset_after}")
    elif sensitivity is not None:
        yield "Mode and target", text(f"{sensitivity.mode} for {sensitivity.target}")
    inspected = story.first(InspectReport)
    if inspected is not None:
        opsets = ", ".join(f"{domain} {version}" for domain, version in inspected.opset_imports.items())
        yield "Opsets", text(f"{opsets}; IR version {inspected.ir_version}")
        yield "Producer", text(inspected.producer or "not named in the model")


def _data(story: Story) -> Iterator[tuple[str, Cell]]:
    calibrated = story.first(QuantizeReport) or story.first(SensitivityReport)
    if calibrated is not None:
        yield "Calibration data", _calibration(calibrated.calibration)
    parts = dict(_parts(story))
    files = (report.source for report in story.reports if isinstance(report.content, CheckReport))
    for file, (source, check) in zip(files, story.each(CheckReport), strict=True):
        part = f" ({parts[file].replace('held back', 'hold-out')})" if file in parts else ""
        state: State | None = "warning" if check.data.seed is not None else None
        yield (
            "Data of the check",
            text(f"{data_origin(check.data)}: {plural(check.data.samples, 'sample')}{part}{bracketed(source)}", state),
        )


def _parts(story: Story) -> Iterator[tuple[str, str]]:
    """Yield the data of the check in a conversion, and which part of the samples was used."""
    for report in story.reports:
        if isinstance(report.content, ConversionReport) and report.content.measured_on is not None:
            yield step_source(report.source, "check"), report.content.measured_on.part


def _calibration(found: CalibrationUsed | None) -> Cell:
    if found is None:
        return text("none: the scales follow from the weights alone")
    origin = "random inputs" if found.random else found.source
    how = f"; {found.preprocessing.kind}: {found.preprocessing}" if found.preprocessing is not None else ""
    shown = f"{origin}: {plural(found.samples, 'sample')}, method {found.method_used}{how}"
    return text(shown, "warning" if found.random else None)


SECTION = Section(20, "Model, data and versions", ("quantize", "check", "build", "convert", "inspect"), blocks)
