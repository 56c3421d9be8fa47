"""The migrate job: translate command lines of trtexec, Polygraphy and Model Optimizer, and run the result."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from qdqtool.errors import UsageError
from qdqtool.jobs.migration.lines import LONGEST_LINE, parse_line
from qdqtool.jobs.migration.request import Request
from qdqtool.jobs.migration.translation import PLACEHOLDER, MigratedOption, commands, rows
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.io.load import load_model
from qdqtool.results import Report

LARGEST_FILE = 10 * LONGEST_LINE


@dataclass(frozen=True, slots=True, kw_only=True)
class MigratedLine:
    """A command line of another tool, and the commands of qdqtool that replace it.

    Attributes:
        given: The line.
        program: The program that it calls.
        commands: The commands, each with its words.
        options: What became of each option, in the order of the line.
        notes: What a shell would have done with the line, and what was left out.
        needs_data: Whether a command needs calibration data that the line does not name.
    """

    given: str
    program: str
    commands: tuple[tuple[str, ...], ...]
    options: tuple[MigratedOption, ...]
    notes: tuple[str, ...]
    needs_data: bool

    @property
    def complete(self) -> bool:
        """Whether the commands give what the line gives."""
        return not self.needs_data and not any(each.changes_result for each in self.options)


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrateReport(Report):
    """The result of ``migrate``.

    Attributes:
        lines: The command lines, in their order.
        exit_codes: The exit codes of the commands that ``--run`` ran, in their order.
    """

    lines: tuple[MigratedLine, ...]
    exit_codes: tuple[int, ...] = ()

    @property
    def exit_code(self) -> int:
        """The exit code of the command that failed; otherwise 1 if a line lost something, and 0 if none did."""
        return next(filter(None, self.exit_codes), 0) or int(not all(line.complete for line in self.lines))


def migrate(line: str, calib_data: str = "") -> MigrateReport:
    """Translate a command line.

    Args:
        line: A line that calls trtexec, tensorrt_rtx, ``polygraphy convert`` or modelopt.onnx.quantization.
        calib_data: Samples for a command that needs calibration data; empty if there are none.

    Raises:
        UsageError: The line calls something else, or names an unknown option or no model.
        ModelError: The model that it names exists and is damaged.
    """
    return MigrateReport(lines=(_migrated(line, calib_data),))


def migrate_file(path: Path, calib_data: str = "") -> MigrateReport:
    """Translate the command lines in a file; a backslash continues a line, and ``#`` begins a comment.

    Raises:
        UsageError: The file is not a text file of command lines, or a line cannot be translated.
    """
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_FILE + 1)
        text = data.decode("utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not a text file") from None
    if "\0" in text or len(data) > LARGEST_FILE:
        raise UsageError(f"{path} is not a text file of command lines")
    found = list[MigratedLine]()
    for number, line in _lines(text):
        try:
            found.append(_migrated(line, calib_data))
        except UsageError as error:
            raise UsageError(f"{path}, line {number}: {error.message}", hint=error.hint) from None
    if not found:
        raise UsageError(f"{path} has no command line")
    return MigrateReport(lines=tuple(found))


def run_commands(report: MigrateReport, begin: Callable[[Sequence[str]], None], *, quiet_stdout: bool) -> MigrateReport:
    """Run the commands of a report in order until one fails, and return the report with their exit codes.

    Args:
        report: The report.
        begin: Called with each command before it is run.
        quiet_stdout: Whether the output of the commands goes to stderr.

    Raises:
        UsageError: A command needs calibration data; nothing was run.
    """
    if any(line.needs_data for line in report.lines):
        raise UsageError("a command needs calibration data; nothing was run", hint="give samples: `--calib-data DATA`")
    codes = list[int]()
    for words in (words for line in report.lines for words in line.commands):
        begin(words)
        command = [sys.executable, "-P", "-m", *words]
        done = subprocess.run(command, stdout=sys.stderr if quiet_stdout else None, check=False)  # noqa: S603
        codes.append(done.returncode)
        if done.returncode:
            break
    return replace(report, exit_codes=tuple(codes))


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the number and the text of each command line."""
    parts, first = list[str](), 0
    for number, line in enumerate([*text.splitlines(), ""], start=1):
        stripped = line.strip()
        if stripped.startswith("#") or (not stripped and not parts):
            continue
        first = first if parts else number
        parts.append(stripped.removesuffix("\\"))
        if not stripped.endswith("\\"):
            yield first, " ".join(parts).strip()
            parts = []


def _migrated(line: str, calib_data: str) -> MigratedLine:
    parsed = parse_line(line)
    request = Request(parsed, has_pairs)
    made = tuple(commands(parsed.program, request, calib_data))
    return MigratedLine(
        given=line,
        program=parsed.program,
        commands=made,
        options=tuple(rows(parsed, request)),
        notes=parsed.notes,
        needs_data=any(("--calib-data", PLACEHOLDER) in pairwise(words) for words in made),
    )


def has_pairs(model: str) -> bool:
    """Return whether a model file exists and has Q/DQ nodes."""
    return Path(model).is_file() and bool(ModelIndex.of(load_model(model, needs_data=False)).qdq.nodes)
