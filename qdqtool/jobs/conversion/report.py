"""What a conversion did, as data: ``report.json`` is these classes, key by key."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

import msgspec

from qdqtool.results import Judgement, Question, Report, VerdictWord, encode

StepName = Literal["quantize", "validate", "check", "build"]
State = Literal["passed", "failed", "not reached", "not asked for"]
Part = Literal["validation data", "held back", "all", "random"]
STEPS: tuple[StepName, ...] = ("quantize", "validate", "check", "build")
QUESTION: Mapping[str, Question] = {
    "quantize": "numbers",
    "validate": "rules",
    "check": "numbers",
    "build": "engine",
}
"""The question of the verdict that each step answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepReport:
    """One step.

    Attributes:
        step: Its name, which is that of its command.
        state: ``passed``; ``failed``; ``not reached``, since an earlier one failed; or ``not asked for``.
        exit_code: The exit code that its command would have had; None where it did not run.
        missed: The gates that it missed.
        message: Why it failed, in one line; None where it did not.
        hint: How to fix that; None where that is not known.
        report: What its command prints as JSON, with null for ``seconds``; None where it made no report.
    """

    step: StepName
    state: State
    exit_code: int | None = None
    missed: tuple[str, ...] = ()
    message: str | None = None
    hint: str | None = None
    report: Report | None = None

    def document(self) -> dict[str, Any]:
        """Return the step as ``report.json`` has it.

        The report of the step is the JSON that its command prints, but ``seconds`` of a build is null, so that the same
        input gives the same bytes.
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
        samples: How many they were.
        part: ``validation data``; ``held back``: the calibration samples with which nothing but the final ranges was
            chosen; ``all``: every sample of the data; or ``random``.
        reason: Why samples were used that may have chosen something; empty where they did not.
    """

    data: str
    samples: int
    part: Part
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """A file in the folder.

    Attributes:
        name: Its name.
        what: Its content: ``model``, ``weights``, ``plan``, ``ranges``, ``engine``, ``manifest`` or ``signature``.
        bytes: Its size.
        sha256: Its digest.
    """

    name: str
    what: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversionReport(Report):
    """What a conversion did.

    Attributes:
        model: The float model.
        folder: The folder with the files.
        passed: Whether every step passed that was asked for.
        verdict: ``failed`` where a step failed, ``warning`` where a user should know something before deployment.
        reasons: Why the verdict is not ``passed``.
        exit_code: 0, or that of the step that failed; 1 for a warning with ``--strict``.
        failed: The step that failed; None where none did.
        measured_on: The samples of the check; None where it was not reached.
        steps: All four steps, in their order.
        files: Every file in the folder that this run made, besides ``report.json``.
        removed: Files of an earlier conversion in this folder that this run did not make again.
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
        """Return the keys of ``report.json``."""
        return {**Report.document(self), "steps": [each.document() for each in self.steps]}

    def encode(self) -> bytes:
        """Return the bytes of ``report.json``."""
        return msgspec.json.format(encode(self), indent=2) + b"\n"
