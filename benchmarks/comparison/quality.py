"""What a quantized model is worth: its outputs against those of the float model, and its task.

Both run in ONNX Runtime on the CPU with graph optimizations off, so that every Q and DQ does what it says. It computes
most float16 nodes in float32 and rounds only where a chain of them ends; here every one of them rounds its results.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnxruntime
from onnx import TensorProto

from benchmarks.comparison.coverage import half_nodes
from benchmarks.comparison.subjects import Subject
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.io.load import load_model
from qdqtool.models.running.own_evaluator import ModelSession, open_session
from qdqtool.models.running.own_support import EvaluatorSplit
from qdqtool.numerics.dtypes import Array
from qdqtool.numerics.noise import Noise

ROWS = 32
"""Rows of a run where the batch is free."""


@dataclass(frozen=True, slots=True)
class Quality:
    """How good a model is.

    Attributes:
        sqnr: Of each output against the float model, dB over all samples; infinite where nothing differs.
        doubt: Standard error of the SQNR of each output, dB; None where one row decides.
        task: Accuracy or agreement with the float model in percent, or perplexity; None without a task.
    """

    sqnr: dict[str, float]
    task: float | None = None
    doubt: Mapping[str, float | None] = field(default_factory=dict)

    @property
    def worst(self) -> float:
        """SQNR of the worst output, dB."""
        return min(self.sqnr.values())

    @property
    def doubt_of_worst(self) -> float | None:
        """Standard error of the SQNR of the worst output, dB."""
        return self.doubt.get(min(self.sqnr, key=lambda name: self.sqnr[name]))


@dataclass(slots=True)
class Referee:
    """Judges models of one subject; the float outputs are computed once."""

    subject: Subject
    _inputs: dict[str, Array] = field(init=False)
    _labels: Array | None = field(init=False)
    _expected: dict[str, Array] = field(init=False)

    def __post_init__(self) -> None:
        with np.load(self.subject.test) as stored:
            self._inputs = {name: stored[name] for name in stored.files if name != "labels"}
            self._labels = stored["labels"] if "labels" in stored.files else None
        self._expected = self._outputs(self.subject.path)

    def reference(self) -> Quality:
        """The float model itself."""
        return Quality(dict.fromkeys(self._expected, math.inf), self._task(self._expected))

    def judge(self, model: Path) -> Quality:
        """A quantized model.

        Raises:
            Exception: ONNX Runtime cannot load or run it.
        """
        outputs = self._outputs(model)
        measured = {name: sqnr(expected, outputs[name]) for name, expected in self._expected.items()}
        doubt = {name: standard_error_db(expected, outputs[name]) for name, expected in self._expected.items()}
        return Quality(measured, self._task(outputs), doubt)

    def _outputs(self, model: Path) -> dict[str, Array]:
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        names = [value.name for value in session.get_outputs()]
        half = _rounding_session(model)
        if half is not None:
            found = [half.run(feeds) for feeds in self._feeds(session)]
            runs = [[outputs[name] for name in names] for outputs in found]
        else:
            runs = [session.run(None, feeds) for feeds in self._feeds(session)]
        return {name: np.concatenate(parts) for name, *parts in zip(names, *runs, strict=True)}

    def _feeds(self, session: onnxruntime.InferenceSession) -> list[dict[str, Array]]:
        shapes = {value.name: value.shape for value in session.get_inputs()}
        count = len(next(iter(self._inputs.values())))
        if any(array.ndim > len(shapes[name]) for name, array in self._inputs.items()):
            return [{name: np.asarray(array[row]) for name, array in self._inputs.items()} for row in range(count)]
        free = self.subject.metric and not any(isinstance(shape[0], int) for shape in shapes.values())
        step = ROWS if free else 1
        return [
            {name: array[row : row + step] for name, array in self._inputs.items()} for row in range(0, count, step)
        ]

    def _task(self, outputs: dict[str, Array]) -> float | None:
        if not self.subject.metric:
            return None
        (scores,), (expected,) = outputs.values(), self._expected.values()
        labels = expected.argmax(axis=-1) if self._labels is None else self._labels
        return _METRICS[self.subject.metric](scores.astype(np.float64), labels)


def _rounding_session(path: Path) -> ModelSession | None:
    """Return a session that rounds the results of every float16 node; None if a model has no such node."""
    model = load_model(path)
    index = ModelIndex.of(model)
    half = {(node.scope.path, node.key): TensorProto.FLOAT16 for node in half_nodes(index)}
    types = {name: found for name, value in index.view.main.values.items() if (found := index.elem_type(value))}
    return open_session(model, EvaluatorSplit({}, half, types, index)) if half else None


def sqnr(expected: Array, got: Array) -> float:
    """Signal-to-quantization-noise ratio in dB: ``10 log10(sum(x^2) / sum((x - y)^2))``; -inf where not finite."""
    wide = expected.astype(np.float64)
    noise = float(np.square(wide - got).sum())
    if not math.isfinite(noise):
        return -math.inf
    signal = float(np.square(wide).sum())
    if noise == 0:
        return math.inf
    return 10 * math.log10(signal / noise) if signal else -math.inf


def standard_error_db(expected: Array, got: Array) -> float | None:
    """The standard error of :func:`sqnr` in dB, with the entries of the first axis for samples."""
    if not expected.ndim:
        return None
    wide = expected.astype(np.float64).reshape(len(expected), -1)
    noise = np.square(wide - got.reshape(wide.shape)).sum(axis=1)
    error = Noise(np.square(wide).sum(axis=1, keepdims=True), noise[:, np.newaxis]).sqnr_error_db()
    return float(error[0]) if np.isfinite(error[0]) else None


def accuracy(scores: Array, labels: Array) -> float:
    """Percent of rows whose largest score is that of the label."""
    return 100 * float((scores.argmax(axis=-1) == labels).mean())


def perplexity(scores: Array, labels: Array) -> float:
    """``exp`` of the mean cross entropy, scores being logits along the last axis."""
    shifted = scores - scores.max(axis=-1, keepdims=True)
    chosen = np.take_along_axis(shifted, labels[..., None], axis=-1)[..., 0]
    return float(np.exp((np.log(np.exp(shifted).sum(axis=-1)) - chosen).mean()))


_METRICS = {"accuracy": accuracy, "agreement": accuracy, "perplexity": perplexity}
