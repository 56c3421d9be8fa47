"""The facts from which advice is made: the files for its commands, and the results of checks on real data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self

from qdqtool.accuracy.checking.limits import ACCURACY_GATES
from qdqtool.accuracy.checking.report import CheckReport, OutputResult
from qdqtool.jobs.quantize_report import QuantizeReport
from qdqtool.jobs.sensitivity_report import SensitivityReport
from qdqtool.models import targets
from qdqtool.quantization.calibration_report import CalibrationUsed
from qdqtool.quantization.planning import modes
from qdqtool.reports.advice import command
from qdqtool.reports.saved.story import Story

_ARRAYS = (".npz", ".npy")
_IN_MEMORY = frozenset({"array", "dict of arrays", "list", "tuple", "generator", "DataLoader"})
"""The names that reports give to data that Python code passed."""


@dataclass(frozen=True, slots=True)
class Files:
    """The files in the commands that a page suggests; a word in capitals stands for a file that no report contains.

    Attributes:
        float_model: The float model.
        model: The quantized model.
        data: Real samples: the calibration data, or else the data of a check.
        measured: Samples to check with: the data of a check, or else the calibration data.
        options: Mode and target as options of ``quantize``, if they are not the default.
    """

    float_model: str
    model: str
    data: str
    measured: str
    options: tuple[str, ...]

    @classmethod
    def of(cls, story: Story) -> Self:
        """Return the files of the reports."""
        quantized = story.first(QuantizeReport) or story.first(SensitivityReport)
        calibrated = _calibrated_on(quantized.calibration) if quantized is not None else None
        checked = next(
            (_path(check.data.source) for _, check in story.each(CheckReport) if check.data.seed is None), None
        )
        return cls(
            float_model=story.float_model or "FLOAT.onnx",
            model=story.quantized_model or "MODEL.onnx",
            data=calibrated or checked or "DATA",
            measured=checked or calibrated or "DATA",
            options=() if quantized is None else _options(quantized.mode, quantized.target),
        )

    def in_default_mode(self) -> Self:
        """Return the same files, with the options of the default mode."""
        return replace(self, options=self.options[2:] if self.options[:1] == ("--quantize-mode",) else self.options)

    def quantize(self, *words: str) -> str:
        """Return the command that quantizes the float model again in the same way, with additional options."""
        given = ("--calib-data", self.data, *self.options, *words)
        return command("quantize", self.float_model, *given, "-o", "NEW.onnx")

    def check(self, *words: str) -> str:
        """Return the command that compares the quantized model with the float model."""
        return command("check", self.model, "--baseline", self.float_model, "--data", self.measured, *words)

    def build(self, *words: str) -> str:
        """Return the command that builds an engine, with the shapes of the data if `build` can read the data."""
        shapes = ("--data", self.measured) if self.measured.endswith(_ARRAYS) else ()
        return command("build", self.model, *shapes, *words, "-o", "NEW.engine")


def _calibrated_on(used: CalibrationUsed | None) -> str | None:
    if used is None or used.random or used.from_file or used.given is not None:
        return None
    return _path(used.source)


def _path(source: str) -> str | None:
    return None if source in _IN_MEMORY else source


def _options(mode: str, target: str) -> tuple[str, ...]:
    given = () if mode == modes.DEFAULT else ("--quantize-mode", mode)
    return given if target == targets.DEFAULT else (*given, "--target", target)


def compared(story: Story) -> Iterator[tuple[str, CheckReport]]:
    """Yield the checks on real data against a float model, each with its source."""
    for source, check in story.each(CheckReport):
        if check.baseline is not None and check.data.seed is None:
            yield source, check


def has_fault(check: CheckReport) -> bool:
    """Return whether another gate than accuracy failed; this fault must be fixed before accuracy is judged."""
    return any(not gate.passed and gate.name not in ACCURACY_GATES for gate in check.gates)


def worst_output(check: CheckReport) -> OutputResult | None:
    """Return the output with the lowest SQNR, or None if no output has an SQNR."""
    known = [output for output in check.outputs if output.sqnr_db is not None]
    return min(known, key=lambda output: output.sqnr_db or 0.0, default=None)
