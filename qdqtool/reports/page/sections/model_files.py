"""The files that a conversion wrote and reports read, each with its digest."""

from collections.abc import Iterator

from qdqtool.accuracy.checking.report import CheckReport
from qdqtool.engines.build.report import EngineReport, RefusedReport
from qdqtool.engines.report import LayerMap
from qdqtool.jobs.conversion.report import ConversionReport
from qdqtool.jobs.inspect_report import InspectReport
from qdqtool.jobs.quantize_report import QuantizeReport
from qdqtool.jobs.sensitivity_report import SensitivityReport
from qdqtool.models.graph.report import DataFile, ModelFile
from qdqtool.reports.blocks import Block, Cell, Column, Columns, number, tabulate, text
from qdqtool.reports.page.section import Section
from qdqtool.reports.saved.story import Story

_Row = tuple[str, str, DataFile, tuple[str, ...]]
"""A file: its name, its content, its size and digest, and the commands whose reports have this digest."""
COLUMNS: Columns[_Row] = {
    Column("File"): lambda row: text(row[0]),
    Column("Content"): lambda row: text(row[1]),
    Column("Bytes", numeric=True): lambda row: number(row[2].bytes, ","),
    Column("SHA-256", prose=True): lambda row: _digest(row[2].sha256),
    Column("Reports"): lambda row: text(", ".join(row[3])),
}
_OF_MODEL = (EngineReport, InspectReport, LayerMap, QuantizeReport, RefusedReport, SensitivityReport)


def blocks(story: Story) -> tuple[Block, ...]:
    """Return a row for each file with a digest; a file that changed between two reports has two rows."""
    rows = dict[tuple[str, int, str | None], _Row]()
    for command, kind, file in _files(story):
        name = file.name.rpartition("/")[2]
        _, known_kind, found, commands = rows.get((name, file.bytes, file.sha256), ("", kind, file, ()))
        rows[name, file.bytes, file.sha256] = found.name, known_kind, found, tuple(dict.fromkeys((*commands, command)))
    return (tabulate("Files", COLUMNS, rows.values()),) if rows else ()


def _files(story: Story) -> Iterator[tuple[str, str, DataFile]]:
    """Yield each file of a report, with the command and the role of the file."""
    for report in story.reports:
        content = report.content
        found: list[tuple[str, str, ModelFile | None]] = []
        if isinstance(content, ConversionReport):
            for file in content.files:
                yield report.command, file.what, DataFile(name=file.name, bytes=file.bytes, sha256=file.sha256)
        if isinstance(content, QuantizeReport):
            found = [("float model", content.model, content.model_file), ("model", content.output, content.output_file)]
        elif isinstance(content, _OF_MODEL):
            kind = "float model" if isinstance(content, SensitivityReport) else "model"
            found = [(kind, content.model or "", content.model_file)]
        if isinstance(content, CheckReport):
            found = [
                ("model", content.model, content.model_file),
                ("float model", content.baseline or "", content.baseline_file),
            ]
        for kind, path, each in found:
            yield from _of_model(report.command, kind, path, each)
    for report, model in story.of_this_model():
        yield from _of_model(report.command, "model", model.path, model.file)


def _of_model(command: str, kind: str, path: str, file: ModelFile | None) -> Iterator[tuple[str, str, DataFile]]:
    if file is not None:
        yield command, kind, DataFile(name=path, bytes=file.bytes, sha256=file.sha256)
        yield from ((command, f"weights of the {kind}", each) for each in file.external_data)


def _digest(sha256: str | None) -> Cell:
    return text(sha256) if sha256 is not None else Cell("not computed: large external data", None, "unknown")


SECTION = Section(85, "Files and digests", ("quantize", "check", "build", "validate", "inspect"), blocks)
