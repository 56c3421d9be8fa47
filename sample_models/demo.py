"""The main job on a real network, as ``make demo`` runs it: from a float model and some data to an engine.

Every step is the command that a user would type, run as a process of its own and shown with its own output. The same
command with ``--output-format json`` then leaves its report in the demo's folder, and the summary is read from those
reports. The accuracy is counted here, on images that neither training nor the scales have seen.

Run from the top of the repository: ``python -m sample_models.demo [FOLDER]``; the folder defaults to ``build/demo``.
Leaves with 1 if any step fails, int8 loses more than half a point of accuracy, or the validator finds an error.
"""

import json
import platform
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

SAMPLE = Path("sample_models/digits_cnn")
FLOAT_MODEL = SAMPLE / "model.onnx"
CALIBRATION_DATA, TEST_DATA = SAMPLE / "calibration.npz", SAMPLE / "test.npz"
MAX_LOSS_POINTS = 0.5
MIN_SQNR = 30
EXIT_MISSING_CAPABILITY = 4
BUILDER_PLATFORMS = {("Linux", "x86_64"), ("Windows", "AMD64")}
"""Where wheels of TensorRT for RTX exist; elsewhere its step is skipped, and said to be."""


class StepFailedError(Exception):
    """A command of the demo did not end with exit code 0."""

    def __init__(self, arguments: list[str], code: int) -> None:
        super().__init__(f"demo failed: qdqtool {shlex.join(arguments)} ended with exit code {code}")
        self.code = code


@dataclass(frozen=True, slots=True)
class Files:
    """What the demo writes."""

    folder: Path

    @property
    def model(self) -> Path:
        """The Q/DQ model."""
        return self.folder / "digits_cnn.int8.onnx"

    @property
    def engine(self) -> Path:
        """The TensorRT engine."""
        return self.folder / "digits_cnn.int8.engine"

    @property
    def all(self) -> list[Path]:
        """Everything that a complete run leaves in the folder."""
        manifest = self.engine.with_name(f"{self.engine.name}.manifest.json")
        reports = [self.report(command) for command in ("quantize", "validate", "check", "build")]
        return [self.model, self.engine, manifest, *reports]

    def report(self, command: str) -> Path:
        """The JSON report of a command."""
        return self.folder / f"{command}.json"


def qdqtool(files: Files, *words: str | Path) -> dict[str, Any]:
    """Show a command with its output, run it again for its JSON report, keep and return that.

    Raises:
        StepFailedError: It ended with another exit code than 0.
    """
    arguments = [str(word) for word in words]
    print(f"\n$ qdqtool {shlex.join(arguments)}", flush=True)
    _run(arguments, capture=False)
    report = _run([*arguments, "--output-format", "json"], capture=True)
    files.report(arguments[0]).write_text(report, encoding="utf-8")
    return dict(json.loads(report))


def _run(arguments: list[str], *, capture: bool) -> str:
    command = [sys.executable, "-m", "qdqtool", *arguments]
    ended = subprocess.run(command, stdout=subprocess.PIPE if capture else None, text=True, check=False)
    if ended.returncode:
        raise StepFailedError(arguments, ended.returncode)
    return ended.stdout or ""


def build(files: Files) -> dict[str, Any] | None:
    """Build the engine; None where the builder does not exist for this kind of machine.

    Raises:
        StepFailedError: It exists and did not succeed.
    """
    try:
        return qdqtool(files, "build", files.model, "-o", files.engine, "--backend", "tensorrt-rtx")
    except StepFailedError as failed:
        here = (platform.system(), platform.machine())
        if failed.code == EXIT_MISSING_CAPABILITY and here not in BUILDER_PLATFORMS:
            return None
        raise


def accuracy(model: Path) -> float:
    """Share of the test images that a model recognizes, in percent, by ONNX Runtime on the CPU as the graph stands."""
    with np.load(TEST_DATA, allow_pickle=False) as data:
        images, labels = data["image"], data["labels"]
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    (logits,) = session.run(None, {"image": images})
    return float(np.mean(logits.argmax(axis=1) == labels) * 100)


def summarize(files: Files, found: dict[str, Any], checked: dict[str, Any], built: dict[str, Any] | None) -> bool:
    """Print the summary; returns whether everything is as it should be."""
    before, after = accuracy(FLOAT_MODEL), accuracy(files.model)
    loss = round(before - after, 2)
    errors = found["summary"]["errors"]
    sqnr = ", ".join(f"{each['sqnr_db']:.1f} dB" for each in checked["outputs"])
    good = loss <= MAX_LOSS_POINTS and errors == 0 and checked["passed"]
    rows = [
        ("accuracy", f"float {before:.2f} %, int8 {after:.2f} %: {loss:.2f} points lost, {MAX_LOSS_POINTS} allowed"),
        ("SQNR", f"{sqnr} on the output, int8 against float"),
        ("findings", f"{errors} errors, {found['summary']['warnings']} warnings"),
        ("engine", _engine_line(built)),
        ("sizes", ", ".join(f"{what} {path.stat().st_size:,} bytes" for what, path in _sized(files, built))),
        ("files", f"in {files.folder}: {', '.join(path.name for path in files.all if path.exists())}"),
    ]
    print("\nSummary")
    for label, text in rows:
        print(f"  {label:<9} {text}")
    print("\nThe demo", ("succeeded, the engine SKIPPED." if built is None else "succeeded.") if good else "FAILED.")
    return good


def _sized(files: Files, built: dict[str, Any] | None) -> list[tuple[str, Path]]:
    sized = [("float model", FLOAT_MODEL), ("int8 model", files.model)]
    return sized if built is None else [*sized, ("engine", files.engine)]


def _engine_line(built: dict[str, Any] | None) -> str:
    if built is None:
        return f"SKIPPED: TensorRT for RTX does not exist for {platform.system()} {platform.machine()}"
    planned, achieved = built["planned"]["int8"], built["achieved"]["int8"]
    return f"{achieved} of {planned} planned int8 nodes are int8 (evidence: {built['evidence']})"


def main() -> int:
    """Run the demo; returns the exit code."""
    files = Files(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("build/demo"))
    files.folder.mkdir(parents=True, exist_ok=True)
    for path in files.all:
        path.unlink(missing_ok=True)
    try:
        int8 = ("--quantize-mode", "int8", "--calib-data", CALIBRATION_DATA)
        qdqtool(files, "quantize", FLOAT_MODEL, *int8, "-o", files.model)
        found = qdqtool(files, "validate", files.model, "--target", "tensorrt-rtx")
        against = ("--baseline", FLOAT_MODEL, "--data", TEST_DATA, "--min-sqnr", str(MIN_SQNR))
        checked = qdqtool(files, "check", files.model, *against)
        built = build(files)
    except StepFailedError as failed:
        print(failed, file=sys.stderr)
        return 1
    return 0 if summarize(files, found, checked, built) else 1


if __name__ == "__main__":
    sys.exit(main())
