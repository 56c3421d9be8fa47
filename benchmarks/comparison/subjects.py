"""The models that are quantized, each with data to calibrate on and other data to measure on.

Generated models and data are written to the folder that is given and used again when they are there.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from benchmarks.comparison import bert_base, data, resnet50
from qdqtool.numerics.dtypes import Array

SAMPLES_FOLDER = Path(__file__).parents[2] / "sample_models"
REAL_MODELS = "QDQTOOL_REAL_MODELS"
TOKENS = 128
FACE_SHAPE = (3, 240, 320)


@dataclass(frozen=True, slots=True)
class Subject:
    """A model with its data.

    Attributes:
        name: How tables name it.
        path: The float model.
        calibration: ``.npz`` with calibration samples along the first axis.
        test: ``.npz`` with samples that calibration does not see, and ``labels`` if there is a task.
        samples: Calibration samples to use.
        heavy: Inference takes so long that starting Python does not count: time and memory are judged here.
        few: Too slow, or too little known of it, for every method of every tool.
        metric: ``accuracy`` or ``perplexity``; empty: the data are random.
        input_shapes: What the builder needs to be told, for ``--input-shapes``; empty: nothing.
    """

    name: str
    path: Path
    calibration: Path
    test: Path
    samples: int
    heavy: bool = False
    few: bool = False
    metric: str = ""
    input_shapes: str = ""


@dataclass(frozen=True, slots=True)
class Workshop:
    """Where subjects are made.

    Attributes:
        folder: For generated files.
        quick: Few samples.
    """

    folder: Path
    quick: bool

    def arrays(self, name: str, make: Callable[[], dict[str, Array]]) -> Path:
        """The ``.npz`` of that name, made unless it is there."""
        path = self.folder / f"{name}.npz"
        if not path.exists():
            np.savez(path, **make())
        return path


def names() -> list[str]:
    """All subjects; the real models are among them if the environment names their folder."""
    return [*_MADE, *_real()]


def prepare(name: str, workshop: Workshop) -> Subject:
    """Make or find a subject.

    Raises:
        KeyError: There is none of that name.
    """
    real = _real()
    return _real_subject(real[name], workshop) if name in real else _MADE[name](workshop)


def has_matmul_weights(path: Path) -> bool:
    """Whether a MatMul of the main graph has a constant right side: what weight-only int4 is for."""
    graph = onnx.load(path, load_external_data=False).graph
    stored = {tensor.name for tensor in graph.initializer}
    return any(node.op_type == "MatMul" and node.input[1] in stored for node in graph.node)


def _resnet(workshop: Workshop) -> Subject:
    return resnet(workshop, side=224, samples=24 if workshop.quick else 100)


def resnet(workshop: Workshop, *, side: int, samples: int) -> Subject:
    """The ResNet-50 topology for images of that side."""
    name = "resnet50" if side == 224 else f"resnet50_{side}"
    path, shape = workshop.folder / f"{name}.onnx", (3, side, side)
    if not path.exists():
        resnet50.write(path, data.images(8, shape, seed=1))
    return Subject(
        name,
        path,
        workshop.arrays(f"{name}.{samples}.calibration", lambda: {"image": data.images(samples, shape, seed=2)}),
        workshop.arrays(f"{name}.test", lambda: {"image": data.images(16, shape, seed=3)}),
        samples,
        heavy=True,
    )


def _bert(workshop: Workshop) -> Subject:
    path, size = workshop.folder / "bert_base.onnx", bert_base.Size()
    if not path.exists():
        bert_base.Encoder(size, seed=0).write(path, TOKENS)
    return Subject(
        "bert_base",
        path,
        workshop.arrays("bert_base.calibration", lambda: data.token_ids(32, TOKENS, size.vocabulary, 1)),
        workshop.arrays("bert_base.test", lambda: data.token_ids(8, TOKENS, size.vocabulary, 2)),
        samples=8 if workshop.quick else 32,
        heavy=True,
        few=True,
    )


def _trained(name: str, metric: str, model: str = "model") -> Callable[[Workshop], Subject]:
    def made(_: Workshop) -> Subject:
        folder = SAMPLES_FOLDER / name
        calibration = folder / "calibration.npz"
        with np.load(calibration) as stored:
            samples = len(stored[stored.files[0]])
        title = name if model == "model" else f"{name}_{model}"
        return Subject(title, folder / f"{model}.onnx", calibration, folder / "test.npz", samples, metric=metric)

    return made


_MADE: dict[str, Callable[[Workshop], Subject]] = {
    "digits_cnn": _trained("digits_cnn", "accuracy"),
    "digits_transformer": _trained("digits_transformer", "accuracy"),
    "char_lm": _trained("char_lm", "perplexity"),
    "digits_depthwise": _trained("digits_depthwise", "accuracy"),
    "digits_depthwise_uneven": _trained("digits_depthwise", "accuracy", "uneven"),
    "resnet50": _resnet,
    "bert_base": _bert,
}


def _real() -> dict[str, Path]:
    folder = os.environ.get(REAL_MODELS)
    return {path.stem: path for path in sorted(Path(folder).glob("*.onnx"))} if folder else {}


def _real_subject(path: Path, workshop: Workshop) -> Subject:
    samples = 8 if workshop.quick else 32
    calibration = workshop.arrays(f"{path.stem}.{samples}.calibration", lambda: _real_inputs(path, samples, seed=1))
    test = workshop.arrays(f"{path.stem}.test", lambda: _real_inputs(path, 16, seed=2))
    speech = "silero" in path.stem
    shapes = f"input:1x{data.SPEECH_WINDOW},state:2x1x128" if speech else ""
    return Subject(path.stem, path, calibration, test, samples, few=True, input_shapes=shapes)


def _real_inputs(path: Path, count: int, seed: int) -> dict[str, Array]:
    graph = onnx.load(path, load_external_data=False).graph
    stored = {tensor.name for tensor in graph.initializer}
    (first, *others) = [value for value in graph.input if value.name not in stored]
    if others:
        return data.speech(count, seed)
    dims = [dim.dim_value for dim in first.type.tensor_type.shape.dim]
    if first.type.tensor_type.elem_type == onnx.TensorProto.INT32:
        return {first.name: data.file_bytes(count, dims[1], seed)}
    shape = (dims[1], *(dims[2:] if all(dims[2:]) else FACE_SHAPE[1:]))
    pixels = data.images(count, shape, seed)
    if "yunet" in path.stem:
        pixels = np.clip(128 + 50 * pixels, 0, 255).astype(np.float32)
    return {first.name: np.clip(pixels, -1, 1) if "face_slim" in path.stem else pixels}
