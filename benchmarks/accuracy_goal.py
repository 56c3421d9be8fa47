"""What ``quantize --min-sqnr`` finds: the default model, a goal 5 dB above it, and what is left in float for that.

    python benchmarks/accuracy_goal.py --folder work [--networks NETWORKS] [--only yunet_n_dynamic]

Each model is quantized to int8 with default options, and once more with a goal of its held-back accuracy and 5 dB. Both
are measured on test data that neither saw. Times are ratios to one plain run of all calibration samples in an ONNX
Runtime session with default options, and to ``qdqtool calibrate`` with default options, in the same process. The sample
models and the real models of ``QDQTOOL_REAL_MODELS`` have data of their own (``benchmarks/peers.py``); 128 samples
calibrate the real ones. ``--networks`` names a folder, made by ``python -m benchmarks.networks.export NETWORKS
--samples 128``, of which six networks are taken. Prints a table in Markdown.
"""

import argparse
import math
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime

from benchmarks.comparison import subjects
from benchmarks.comparison.quality import Quality, Referee
from benchmarks.comparison.subjects import Subject, Workshop
from qdqtool.accuracy.report import Accuracy, OutputAccuracy
from qdqtool.accuracy.search.accuracy_goal import AccuracyGoal
from qdqtool.errors import GateError
from qdqtool.jobs.calibrate import calibrate
from qdqtool.jobs.quantize import QuantizeOptions, quantize_model
from qdqtool.jobs.quantize_report import QuantizeReport
from qdqtool.models.graph.io.load import load_model
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.samples.input_shapes import parse_shapes
from qdqtool.samples.request import FileData, open_feeds

RAISED_DB = 5.0
SAMPLES = 128
NAMES = (
    "yunet_n_dynamic",
    "face_slim_320",
    "silero_vad_16k_op15",
    "magika_fast_v2_1",
    "digits_cnn",
    "digits_depthwise",
    "digits_transformer",
    "char_lm",
)
NETWORKS = ("unet", "resnet18", "yolo", "mobilenet_v3_small", "bert", "wav2vec2")
TITLES = (
    "model",
    "layers",
    "default: held back, test dB",
    "goal dB",
    "in float",
    "of the cost",
    "held back, test dB",
    "search ÷ plain run, ÷ calibrate",
    "runs",
)


@dataclass(frozen=True, slots=True)
class Timed:
    """A report with the seconds that it took."""

    report: QuantizeReport
    seconds: float


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--networks", type=Path)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    print(f"| {' | '.join(TITLES)} |\n|{'---|' * len(TITLES)}")
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.folder or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        for subject in _subjects(folder, arguments.networks):
            if not arguments.only or subject.name in arguments.only.split(","):
                print(f"| {' | '.join(row(subject, Path(scratch)))} |", flush=True)


def _subjects(folder: Path, networks: Path | None) -> Iterator[Subject]:
    for name in NAMES:
        if name in subjects.names():
            yield subjects.prepare(name, Workshop(folder, quick=False, samples=SAMPLES))
    for name in NETWORKS if networks is not None else ():
        yield from_zoo(networks, name)


def from_zoo(folder: Path, name: str) -> Subject:
    """A network of the zoo, as ``benchmarks/networks/export.py`` left it in a folder."""
    paths = [folder / f"{name}.{part}" for part in ("torchscript.onnx", "calib.npz", "test.npz")]
    with np.load(paths[1]) as stored:
        samples = len(stored[stored.files[0]])
    return Subject(name, *paths, samples)


def row(subject: Subject, scratch: Path) -> list[str]:
    """Measure one model."""
    referee, plain, calibration = Referee(subject), _plain_seconds(subject), _calibration_seconds(subject)
    model = scratch / "quantized.onnx"
    default = _quantized(subject, model, None)
    before = _pair(default.report.accuracy, referee.judge(model))
    goal = worst(default.report.accuracy) + RAISED_DB
    try:
        found = _quantized(subject, model, AccuracyGoal(min_sqnr_db=goal))
    except GateError as error:
        return [subject.name, "", before, f"{goal:.1f}", error.message, *[""] * 4]
    reached, after = found.report.goal, _pair(found.report.accuracy, referee.judge(model))
    assert reached is not None
    return [
        subject.name,
        str(reached.layers),
        before,
        f"{goal:.1f}",
        str(len(reached.left)),
        f"{reached.float_share:.0%}",
        after,
        f"{(found.seconds - default.seconds) / plain:.0f}, {(found.seconds - default.seconds) / calibration:.1f}",
        str(reached.runs),
    ]


def _recipe(subject: Subject) -> Recipe:
    shapes = parse_shapes(subject.input_shapes.split(), "--input-shapes") if subject.input_shapes else {}
    return Recipe(input_shapes=shapes)


def _quantized(subject: Subject, output: Path, goal: AccuracyGoal | None) -> Timed:
    options = QuantizeOptions(recipe=_recipe(subject), goal=goal)
    start = time.perf_counter()
    report = quantize_model(subject.path, subject.calibration, output, options)
    return Timed(report, time.perf_counter() - start)


def _plain_seconds(subject: Subject) -> float:
    session = onnxruntime.InferenceSession(subject.path, providers=["CPUExecutionProvider"])
    feeds = open_feeds(load_model(subject.path), FileData(path=subject.calibration, samples=subject.samples))
    samples = [dict(sample) for sample in feeds]
    session.run(None, samples[0])
    start = time.perf_counter()
    for sample in samples:
        session.run(None, sample)
    return time.perf_counter() - start


def _calibration_seconds(subject: Subject) -> float:
    start = time.perf_counter()
    calibrate(subject.path, FileData(path=subject.calibration, samples=subject.samples), _recipe(subject))
    return time.perf_counter() - start


def worst(accuracy: Accuracy | None) -> float:
    """SQNR of the worst output, dB."""
    output = _worst_output(accuracy)
    return math.inf if output is None or output.sqnr_db is None else output.sqnr_db


def _worst_output(accuracy: Accuracy | None) -> OutputAccuracy | None:
    assert accuracy is not None
    known = (each for each in accuracy.outputs if each.sqnr_db is not None)
    return min(known, key=lambda each: each.sqnr_db or 0.0, default=None)


def _pair(accuracy: Accuracy | None, on_test: Quality) -> str:
    """Held back and on test data, each with its standard error."""
    output = _worst_output(accuracy)
    error = output.standard_error_db if output is not None else None
    return f"{_decibels(worst(accuracy), error)}, {_decibels(on_test.worst, on_test.doubt_of_worst)}"


def _decibels(found: float, error: float | None) -> str:
    return f"{found:.1f}" if error is None else f"{found:.1f} ± {error:.1f}"


if __name__ == "__main__":
    main()
