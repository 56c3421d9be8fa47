"""AIMET's sensitivity of layers: ``aimet_layers.py MODEL DATA.npz SAMPLES RESULT.json``.

A simulation in 8 bits is calibrated on all samples. ``analyze_per_layer_sensitivity`` then enables the quantizers of
one node at a time; the score is the SQNR of the worst output on the first samples, as many as qdqtool's search runs.
"""

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from aimet_onnx import QuantizationSimModel
from aimet_onnx.quant_analyzer import analyze_per_layer_sensitivity

FEW = 8


def main(words: Sequence[str]) -> None:
    """Measure every layer, and write scores and times."""
    model, data, count, result = words
    samples = _samples(onnx.load(model, load_external_data=False).graph, data, int(count))
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    expected = [session.run(None, sample) for sample in samples[:FEW]]

    def score(candidate: onnxruntime.InferenceSession) -> float:
        return _worst(expected, [candidate.run(None, sample) for sample in samples[:FEW]])

    start = time.perf_counter(), time.process_time()
    simulated = QuantizationSimModel(onnx.load(model), providers=["CPUExecutionProvider"])
    simulated.compute_encodings(samples)
    calibrated = time.perf_counter(), time.process_time()
    scores = analyze_per_layer_sensitivity(simulated, score)
    end = time.perf_counter(), time.process_time()
    written: dict[str, object] = {"scores": scores, "all_db": score(simulated.session)}
    for number, unit in enumerate(("seconds", "cpu_seconds")):
        written[unit] = end[number] - calibrated[number]
        written[f"calibration_{unit}"] = calibrated[number] - start[number]
    Path(result).write_text(json.dumps(written), encoding="utf-8")


def _samples(graph: onnx.GraphProto, data: str, count: int) -> list[dict[str, np.ndarray]]:  # type: ignore[type-arg]
    ranks = {value.name: len(value.type.tensor_type.shape.dim) for value in graph.input}
    with np.load(data) as stored:
        arrays = {name: stored[name][:count] for name in stored.files if name in ranks}
    return [
        {
            name: np.asarray(array[row]) if array.ndim > ranks[name] else array[row : row + 1]
            for name, array in arrays.items()
        }
        for row in range(len(next(iter(arrays.values()))))
    ]


def _worst(expected: list[list[np.ndarray]], found: list[list[np.ndarray]]) -> float:  # type: ignore[type-arg]
    pairs = zip(zip(*expected, strict=True), zip(*found, strict=True), strict=True)
    return min((_sqnr(np.stack(wanted), np.stack(got)) for wanted, got in pairs), default=np.inf)


def _sqnr(expected: np.ndarray, found: np.ndarray) -> float:  # type: ignore[type-arg]
    wide = expected.astype(np.float64)
    signal, noise = float(np.square(wide).sum()), float(np.square(wide - found).sum())
    return 10 * np.log10(signal / noise) if signal and noise else 300.0


if __name__ == "__main__":
    main(sys.argv[1:])
