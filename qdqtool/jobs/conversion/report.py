"""The result of a conversion, as data: the keys of ``report.json`` are the attributes of these classes."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

import msgspec

from qdqtool.results import Judgement, Question, Report, VerdictWord, encode

StepName = Literal["quantize", "validate", "check", "build"]
State = Literal["passed", "failed", "not reached", "not asked for"]
Part = Literal["validation data", "held back", "all", "random"]
STEPS: tuple[StepName, ...] = ("quantize", "validate", "check", "build")
QUESTION: Mapping[str, Question] = {"quantize": "numbers", "validate": "rules", "check": "numbers", "build": "engine"}
"""The question of the verdict that each step answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepReport:
    """The result of one step.

    Attributes:
        step: Name of the step, which is the name of its command.
        state: ``passed``; ``failed``; ``not reached``, because an earlier step failed; or ``not asked for``.
        exit_code: The exit code that the command would have had; None if the step did not run.
        missed: The gates that the step missed.
        message: Why the step failed, in one line; None if it did not fail.
        hint: How to fix the failure; None if unknown.
        report: The JSON report of the command, with null for ``seconds``; None if there is no report.
    """

    step: StepName
    state: State
    exit_code: int | None = None
    missed: tuple[str, ...] = ()
    message: str | None = None
    hint: str | None = None
    report: Report | None = None

    def document(self) -> dict[str, Any]:
        """Return the step in the form of ``report.json``.

        The report of the step is the JSON that its command prints. Only ``seconds`` of a build is null, so that the
        same input gives the same bytes.
        """
        found = {each.name: getattr(self, each.name) for each in fields(self)}
        report = None if self.report is None else self.report.document()
        if report is not None and "seconds" in report:
            report["seconds"] = None
        return {**found, "report": report}


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredOn:
    """The samples on which the quantized model was checked against the float model.

    Attributes:
        data: The file, folder or script; ``random`` for random inputs.
        samples: Number of samples.
        part: ``validation data``; ``held back``: the hold-out samples of the calibration data; ``all``: every sample of
            the data; or ``random``.
        reason: Why the check also used selection samples; empty if it did not.
    """

    data: str
    samples: int
    part: Part
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """A file in the folder.

    Attributes:
        name: Name of the file.
        what: Its content: ``model``, ``weights``, ``plan``, ``ranges``, ``preview`` (a picture of preprocessed images),
            ``engine``, ``manifest`` or ``signature``.
        bytes: Size in bytes.
        sha256: Digest of the file.
    """

    name: str
    what: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversionReport(Report):
    """The result of a conversion.

    Attributes:
        model: The float model.
        folder: The folder with the files.
        passed: Whether every requested step passed.
        verdict: ``failed`` if a step failed; ``warning`` if a user should know something before deployment.
        reasons: Why the verdict is not ``passed``.
        exit_code: 0, or the exit code of the step that failed; 1 for a warning with ``--strict``.
        failed: The step that failed; None if none failed.
        measured_on: The samples of the check; None if the check was not reached.
        steps: All four steps, in order.
        files: Every file in the folder that this run made, except the reports.
        removed: Files of an earlier conversion in this folder that were removed and not made again.
    """

    model: str
    folder: str
    passed: bool
    exit_code: int
    failed: StepName | None
    measured_on: MeasuredOn | None
    steps: tuple[StepReport, ...]
    files: tuple[WrittenFile, ...]
    removed: tuple[str, ...]
    verdict: VerdictWord = "passed"
    reasons: tuple[Judgement, ...] = ()

    def step(self, name: StepName) -> StepReport:
        """Return the report of a step."""
        return next(each for each in self.steps if each.step == name)

    def document(self) -> dict[str, Any]:
        """Return the content of ``report.json``."""
        return {**Report.document(self), "steps": [each.document() for each in self.steps]}

    def encode(self) -> bytes:
        """Return the bytes of ``report.json``."""
        return msgspec.json.format(encode(self), indent=2) + b"\n"
