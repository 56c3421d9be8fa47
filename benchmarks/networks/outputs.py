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
    pairs = zip(expected.values(), found.values(), strict=True)
    return min((_sqnr(*pair) for pair in pairs if pair[0][0].dtype.kind == "f"), default=np.inf)


def _sqnr(expected: Sequence[Array], found: Sequence[Array]) -> float:
    signal, noise = 0.0, 0.0
    for wanted, got in zip(expected, found, strict=True):
        exact = wanted.astype(np.float64)
        signal += float(np.square(exact).sum())
        noise += float(np.square(exact - got).sum())
    return float("inf") if noise == 0 else float(10 * np.log10(signal / noise)) if signal else float("-inf")
