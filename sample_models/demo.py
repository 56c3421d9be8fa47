"""The main job on a real network, as ``make demo`` runs it: from a float model and some data to an engine.

It runs ``qdqtool convert``, shown as a user would type it and with its own output. The summary is read from the report
that this leaves in the demo's folder. The accuracy is counted here, on images that neither training nor the scales have
seen.

Run from the top of the repository: ``python -m sample_models.demo [FOLDER]``; the folder defaults to ``build/demo``.
Leaves with 1 if a step fails, int8 loses more than half a point of accuracy, or the validator finds an error.
"""

import json
import platform
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

SAMPLE = Path("sample_models/digits_cnn")
FLOAT_MODEL = SAMPLE / "model.onnx"
CALIBRATION_DATA, TEST_DATA = SAMPLE / "calibration.npz", SAMPLE / "test.npz"
REPORT = "report.json"
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


def convert(folder: Path) -> dict[str, Any]:
    """Convert the float model, without an engine where no builder exists for this kind of machine; return the report.

    Raises:
        StepFailedError: A step failed.
    """
    data = ("--calib-data", CALIBRATION_DATA, "--validation-data", TEST_DATA)
    gates = ("--check-min-sqnr", str(MIN_SQNR), "--backend", "tensorrt-rtx")
    arguments = [str(word) for word in ("convert", FLOAT_MODEL, *data, *gates, "-o", folder)]
    try:
        _run(arguments)
    except StepFailedError as failed:
        here = (platform.system(), platform.machine())
        if failed.code != EXIT_MISSING_CAPABILITY or here in BUILDER_PLATFORMS:
            raise
        _run([*(word for word in arguments if word not in {"--backend", "tensorrt-rtx"}), "--no-build"])
    return dict(json.loads((folder / REPORT).read_text(encoding="utf-8")))


def _run(arguments: list[str]) -> None:
    print(f"\n$ qdqtool {shlex.join(arguments)}", flush=True)
    ended = subprocess.run([sys.executable, "-m", "qdqtool", *arguments], check=False)
    if ended.returncode:
        raise StepFailedError(arguments, ended.returncode)


def accuracy(model: Path) -> float:
    """Share of the test images that a model recognizes, in percent, by ONNX Runtime on the CPU as the graph stands."""
    with np.load(TEST_DATA, allow_pickle=False) as data:
        images, labels = data["image"], data["labels"]
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    (logits,) = session.run(None, {"image": images})
    return float(np.mean(logits.argmax(axis=1) == labels) * 100)


def summarize(folder: Path, report: dict[str, Any]) -> bool:
    """Print the summary; returns whether everything is as it should be."""
    steps = {step["step"]: step["report"] for step in report["steps"]}
    paths = {file["what"]: folder / file["name"] for file in report["files"]}
    found, built = steps["validate"]["summary"], steps["build"]
    before, after = accuracy(FLOAT_MODEL), accuracy(paths["model"])
    loss = round(before - after, 2)
    sqnr = ", ".join(f"{each['sqnr_db']:.1f} dB" for each in steps["check"]["outputs"])
    good = loss <= MAX_LOSS_POINTS and found["errors"] == 0 and report["passed"]
    rows = [
        ("accuracy", f"float {before:.2f} %, int8 {after:.2f} %: {loss:.2f} points lost, {MAX_LOSS_POINTS} allowed"),
        ("SQNR", f"{sqnr} on the output, int8 against float"),
        ("findings", f"{found['errors']} errors, {found['warnings']} warnings"),
        ("engine", _engine_line(built)),
        ("sizes", ", ".join(f"{what} {path.stat().st_size:,} bytes" for what, path in _sized(paths))),
        ("files", f"in {folder}: {', '.join(path.name for path in (*paths.values(), folder / REPORT))}"),
    ]
    print("\nSummary")
    for label, text in rows:
        print(f"  {label:<9} {text}")
    print("\nThe demo", ("succeeded, the engine SKIPPED." if built is None else "succeeded.") if good else "FAILED.")
    return good


def _sized(paths: dict[str, Path]) -> list[tuple[str, Path]]:
    sized = [("float model", FLOAT_MODEL), ("int8 model", paths["model"])]
    return [*sized, ("engine", paths["engine"])] if "engine" in paths else sized


def _engine_line(built: dict[str, Any] | None) -> str:
    if built is None:
        return f"SKIPPED: TensorRT for RTX does not exist for {platform.system()} {platform.machine()}"
    planned, achieved = built["planned"]["int8"], built["achieved"]["int8"]
    return f"{achieved} of {planned} planned int8 nodes are int8 (evidence: {built['evidence']})"


def main() -> int:
    """Run the demo; returns the exit code."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("build/demo")
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        report = convert(folder)
    except StepFailedError as failed:
        print(failed, file=sys.stderr)
        return 1
    return 0 if summarize(folder, report) else 1


if __name__ == "__main__":
    sys.exit(main())
