"""The model files of each report, with their digests, and the version of qdqtool that made the report."""

from collections.abc import Iterator

from qdqtool.accuracy.checking.report import CheckReport
from qdqtool.engines.build.report import EngineReport, RefusedReport
from qdqtool.jobs.inspect_report import InspectReport
from qdqtool.jobs.quantize_report import QuantizeReport
from qdqtool.jobs.sensitivity_report import SensitivityReport
from qdqtool.models.graph.report import DataFile, ModelFile
from qdqtool.reports.blocks import Block, Cell, Column, Table, number, text
from qdqtool.reports.page.section import Section
from qdqtool.reports.saved.story import Story

COLUMNS = (
    Column("Report"),
    Column("qdqtool"),
    Column("Model"),
    Column("File"),
    Column("Bytes", numeric=True),
    Column("SHA-256", prose=True),
)
_OF_MODEL = (EngineReport, InspectReport, QuantizeReport, RefusedReport, SensitivityReport)


def blocks(story: Story) -> tuple[Block, ...]:
    """Return a row for each model file for which a report has a digest."""
    rows = tuple(
        row for source, version, kind, path, file in _files(story) for row in _rows(source, version, kind, path, file)
    )
    return (Table("Files of the models, as each report read them", COLUMNS, rows),) if rows else ()


def _files(story: Story) -> Iterator[tuple[str, str | None, str, str, ModelFile]]:
    for report in story.reports:
        content = report.content
        found: list[tuple[str, str | None, ModelFile | None]] = []
        if isinstance(content, _OF_MODEL):
            found = [("model", content.model, content.model_file)]
        if isinstance(content, CheckReport):
            found = [
                ("model", content.model, content.model_file),
                ("baseline", content.baseline, content.baseline_file),
            ]
        if isinstance(content, QuantizeReport):
            found.append(("output", content.output, content.output_file))
        version = report.qdqtool_version
        yield from ((report.source, version, kind, path or "", file) for kind, path, file in found if file is not None)
    for report, model in story.of_this_model():
        if model.file is not None:
            yield report.source, report.qdqtool_version, "model", model.path, model.file


def _rows(source: str, version: str | None, kind: str, path: str, file: ModelFile) -> Iterator[tuple[Cell, ...]]:
    head = (text(source), text(version), text(kind))
    yield (*head, text(path), number(file.bytes, ","), text(file.sha256))
    for data in file.external_data:
        yield (*head, text(data.name), number(data.bytes, ","), _digest(data))


def _digest(data: DataFile) -> Cell:
    return text(data.sha256) if data.sha256 is not None else Cell("not computed: large external data", None, "unknown")


SECTION = Section(85, "Files and digests", ("quantize", "check", "build", "validate", "inspect"), blocks)
