"""Write reports to files, in addition to the printed report: ``--report FORMAT=FILE``."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from qdqtool.errors import CapabilityError, GateError, OutputError, QdqError
from qdqtool.linting.report import ValidateReport
from qdqtool.models.graph.io.output import write_output
from qdqtool.registry import load_unit, unit_names
from qdqtool.reports import findings, json
from qdqtool.reports.failure import Failure, FailureReport, tell
from qdqtool.reports.terminal import make_console
from qdqtool.reports.text import renderer

FORMATS = ("text", "json", "html")
FINDINGS = unit_names(findings)
"""Formats of findings for other tools."""
_DETAILS: Mapping[str, Mapping[str, bool]] = {"findings": {"show_context": True}}
"""Arguments of text renderers, in addition to report and console."""


ReportFile = tuple[str, Path]
"""A format and a file."""


def write_report_files(report: Any, kind: str, files: tuple[ReportFile, ...]) -> None:
    """Write a report to each file, in its format."""
    for output_format, path in files:
        write_output(path, rendered(report, kind, output_format))


def rendered(report: Any, kind: str, output_format: str) -> bytes:
    """Return the content of a file with a report: text with every list in full, JSON, or an HTML page.

    Args:
        report: A report dataclass.
        kind: One of :data:`qdqtool.reports.text.RENDERERS`.
        output_format: One of ``FORMATS``, or of ``FINDINGS`` for the report of a validation or of checks.
    """
    if output_format == "html":
        from qdqtool.reports.page.write import page_of_report

        return page_of_report(report)
    if output_format in FINDINGS:
        if not isinstance(report, ValidateReport):
            from qdqtool.reports.kinds.check import as_findings

            report = as_findings(report)
        return f"{load_unit(findings, output_format).render(report).rstrip()}\n".encode()
    return f"{_render(report, kind, output_format).rstrip()}\n".encode()


def append_summary(report: Any) -> None:
    """Add findings to the summary page of a GitHub Actions job, if an environment variable names the page.

    Raises:
        OutputError: The page cannot be written.
    """
    path = os.environ.get("GITHUB_STEP_SUMMARY")
    if not path:
        return
    try:
        with Path(path).open("ab") as file:
            file.write(rendered(report, "findings", "markdown"))
    except OSError as error:
        raise OutputError(f"job summary {path} cannot be written: {error.strerror}") from None


@contextlib.contextmanager
def failures_in(files: tuple[ReportFile, ...], command: str, model: str) -> Iterator[None]:
    """Write the failure to the files if the block ends with an error of exit code 1 or 4."""
    try:
        yield
    except (GateError, CapabilityError) as error:
        try:
            for output_format, path in files:
                write_output(path, _failed(error, command, model, output_format))
        except OutputError as second:
            tell(Failure(f"error: {second.message}", second.hint, second.exit_code))
        raise


def _failed(error: QdqError, command: str, model: str, output_format: str) -> bytes:
    from qdqtool.engines.build.refusal import refused_report
    from qdqtool.engines.tensorrt.builder import BuildRefusedError

    if isinstance(error, BuildRefusedError):
        return rendered(refused_report(model, error), "build_refused", output_format)
    if output_format == "html":
        from qdqtool.reports.page.write import page_of_failure

        return page_of_failure(error, command, model)
    if output_format == "json":
        return f"{json.render(FailureReport(Failure(error.message, error.hint, error.exit_code)))}\n".encode()
    hint = f"hint: {error.hint}\n" if error.hint else ""
    return f"error: {error.message}\n{hint}".encode()


def _render(report: Any, kind: str, output_format: str) -> str:
    if output_format == "json":
        return json.render(report)
    buffer = io.StringIO()
    renderer(kind)(report, make_console(buffer, verbose=True), **_DETAILS.get(kind, {}))
    return buffer.getvalue()
