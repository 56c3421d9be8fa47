"""Outputs of a model on samples, and how far two of them are apart: ONNX Runtime alone, no code of the package."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnxruntime

from qdqtool.numerics.dtypes import Array

Outputs = Mapping[str, Sequence[Array]]
"""By name, one array for each sample."""


def of(model: Path, data: Path) -> Outputs:
    """Run every sample of an ``.npz`` of complete inputs, stacked, with optimizations off."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    taken = {each.name: each.type for each in session.get_inputs()}
    names = [each.name for each in session.get_outputs()]
    with np.load(data) as stored:
        arrays = {name: stored[name] for name in stored.files if name in taken}
    count = len(next(iter(arrays.values())))
    # Where the rest of a model is float16, its inputs may be.
    halves = {name for name, kind in taken.items() if kind == "tensor(float16)"}
    runs = [
        session.run(
            names,
            {name: each[index].astype(np.float16) if name in halves else each[index] for name, each in arrays.items()},
        )
        for index in range(count)
    ]
    return {name: [run[number] for run in runs] for number, name in enumerate(names)}


def worst(expected: Outputs, found: Outputs) -> float:
    """Return the SQNR of the worst float output, dB, by position; infinite where nothing differs."""
    return _worst(*_powers(expected, found))


def difference_error(expected: Outputs, one: Outputs, other: Outputs) -> float:
    """Return the standard error of the difference between two models' :func:`worst`, dB, by the jackknife.

    With few samples the difference may be the chance of these: ``sqrt((n - 1) / n * sum((x_i - mean(x))**2))``, ``x_i``
    being the difference on all samples but one. It is infinite for a single sample.
    """
    (signal, first), (_, second) = _powers(expected, one), _powers(expected, other)
    count = len(signal)
    rest = [np.arange(count) != index for index in range(count)]
    found = np.array([_worst(signal[kept], first[kept]) - _worst(signal[kept], second[kept]) for kept in rest])
    if count < 2 or not np.isfinite(found).all():
        return float("inf")
    return float(np.sqrt((count - 1) / count * np.square(found - found.mean()).sum()))


def _powers(expected: Outputs, found: Outputs) -> tuple[Array, Array]:
    """Return signal and noise of each float output on each sample, both of shape [samples, outputs]."""
    pairs = [pair for pair in zip(expected.values(), found.values(), strict=True) if pair[0][0].dtype.kind == "f"]
    signal = [[float(np.square(each.astype(np.float64)).sum()) for each in wanted] for wanted, _ in pairs]
    noise = [
        [float(np.square(each.astype(np.float64) - other).sum()) for each, other in zip(*pair, strict=True)]
        for pair in pairs
    ]
    return np.array(signal).T, np.array(noise).T


def _worst(signal: Array, noise: Array) -> float:
    if not signal.size:
        return float("inf")
    with np.errstate(divide="ignore", invalid="ignore"):
        found = 10 * np.log10(signal.sum(axis=0) / noise.sum(axis=0))
    found = np.where(noise.sum(axis=0) == 0, np.inf, np.where(signal.sum(axis=0) == 0, -np.inf, found))
    return float(found.min())
