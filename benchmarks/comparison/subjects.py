"""The models that are quantized, each with data to calibrate on and other data to measure on.

Generated models and data are written to the folder that is given and used again when they are there.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from benchmarks.comparison import bert_base, data, real_models, resnet50
from qdqtool.numerics.dtypes import Array

SAMPLES_FOLDER = Path(__file__).parents[2] / "sample_models"
TOKENS = 128


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
        few: Too slow for every method of every tool.
        trained: The weights mean something.
        metric: ``accuracy``, ``perplexity`` or ``agreement`` with the float model; empty: there is no task.
        input_shapes: What all tools and the builder are told, as for ``--input-shapes``; empty: nothing.
    """

    name: str
    path: Path
    calibration: Path
    test: Path
    samples: int
    heavy: bool = False
    few: bool = False
    trained: bool = False
    metric: str = ""
    input_shapes: str = ""


@dataclass(frozen=True, slots=True)
class Workshop:
    """Where subjects are made.

    Attributes:
        folder: For generated files.
        quick: Few samples.
        samples: Calibration samples of the real models, unless quick.
    """

    folder: Path
    quick: bool
    samples: int = 32

    def arrays(self, name: str, make: Callable[[], dict[str, Array]]) -> Path:
        """The ``.npz`` of that name, made unless it is there."""
        path = self.folder / f"{name}.npz"
        if not path.exists():
            np.savez(path, **make())
        return path


def names() -> list[str]:
    """All subjects; the real models are among them if the environment names their folder."""
    return [*_MADE, *real_models.paths()]


def zoo(folder: str | None) -> dict[str, Subject]:
    """The networks that ``zoo.py`` wrote to a folder with the newer exporter, by their names."""
    found = sorted(Path(folder).glob("*.dynamo.onnx")) if folder else []
    return {path.name.split(".")[0]: _of_zoo(path.resolve(), path.name.split(".")[0]) for path in found}


def _of_zoo(path: Path, name: str) -> Subject:
    return Subject(name, path, path.with_name(f"{name}.calib.npz"), path.with_name(f"{name}.test.npz"), samples=24)


def prepare(name: str, workshop: Workshop) -> Subject:
    """Make or find a subject.

    Raises:
        KeyError: There is none of that name.
    """
    real = real_models.paths()
    return _real(real[name], workshop) if name in real else _MADE[name](workshop)


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
        test = folder / "test.npz"
        return Subject(title, folder / f"{model}.onnx", calibration, test, samples, trained=True, metric=metric)

    return made


def _real(path: Path, workshop: Workshop) -> Subject:
    known = real_models.known(path)
    samples = 8 if workshop.quick else workshop.samples
    return Subject(
        path.stem,
        path,
        workshop.arrays(f"{path.stem}.{samples}.calibration", lambda: known.inputs(path, samples, 1)),
        workshop.arrays(f"{path.stem}.test", lambda: known.inputs(path, known.tests, 2)),
        samples,
        trained=True,
        metric=known.metric,
        input_shapes=known.input_shapes,
    )


_MADE: dict[str, Callable[[Workshop], Subject]] = {
    "digits_cnn": _trained("digits_cnn", "accuracy"),
    "digits_transformer": _trained("digits_transformer", "accuracy"),
    "char_lm": _trained("char_lm", "perplexity"),
    "digits_depthwise": _trained("digits_depthwise", "accuracy"),
    "digits_depthwise_uneven": _trained("digits_depthwise", "accuracy", "uneven"),
    "resnet50": _resnet,
    "bert_base": _bert,
}
