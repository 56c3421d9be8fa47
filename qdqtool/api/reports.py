"""The keyword ``reports``: files to which the report of a function is also written."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

from qdqtool.errors import ArgumentError
from qdqtool.models.graph.io.output import check_outputs
from qdqtool.registry import suggestion
from qdqtool.reports.files import FORMATS, ReportFile, failures_in, write_report_files

Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class ReportFiles:
    """The report files of one call.

    Attributes:
        command: The command that corresponds to the function; the text renderer has the same name.
        files: Format and path of each file.
    """

    command: str
    files: tuple[ReportFile, ...]

    def write(self, report: Made) -> Made:
        """Write a report to the files, and return it.

        Raises:
            OutputError: A file cannot be written.
        """
        write_report_files(report, self.command, self.files)
        return report


@contextlib.contextmanager
def report_files(keywords: Any, command: str, model: object) -> Iterator[ReportFiles]:
    """Remove ``reports`` from keywords, and yield the files; if the block misses a gate, write the failure to them.

    Args:
        keywords: The keywords of the function.
        command: The command that corresponds to the function.
        model: The model of the call.

    Raises:
        ArgumentError: A format is unknown, or a file is not a path.
        OutputError: The folder of a file is missing.
        UsageError: Two files are the same, or one is the model.
    """
    path = Path(model) if isinstance(model, str | Path) else None
    files = tuple(_taken(cast("MutableMapping[str, Any]", keywords)))
    check_outputs([file for _, file in files], [] if path is None else [path])
    with failures_in(files, command, str(path or "")):
        yield ReportFiles(command, files)


def _taken(keywords: MutableMapping[str, Any]) -> Iterator[ReportFile]:
    given = keywords.pop("reports", None) or {}
    if not isinstance(given, Mapping):
        raise ArgumentError(f"reports is {given!r}; it must be a dict, such as {{'html': 'page.html'}}")
    for output_format, path in given.items():
        if output_format not in FORMATS:
            near = suggestion(str(output_format), FORMATS)
            raise ArgumentError(f"reports has format {output_format!r}; legal: {', '.join(map(repr, FORMATS))}{near}")
        if not isinstance(path, str | os.PathLike):
            raise ArgumentError(f"reports[{output_format!r}] is {path!r}; it must be a path")
        yield output_format, Path(path)
