"""ONNX Runtime's static quantization with the settings that TensorRT needs.

``ort_static.py MODEL DATA.npz SAMPLES OUTPUT METHOD``: quant_pre_process, then quantize_static in QDQ form with
symmetric activations and weights, one weight scale a channel, and biases left float. What belongs to opset 13, weights
with one scale a channel, it also writes into older models, which are invalid then; so those are converted before.
"""

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process
from peer_input import prepared

METHODS = {
    "max": CalibrationMethod.MinMax,
    "entropy": CalibrationMethod.Entropy,
    "percentile": CalibrationMethod.Percentile,
    "distribution": CalibrationMethod.Distribution,
}
TYPES = {"int8": QuantType.QInt8, "fp8": QuantType.QFLOAT8E4M3FN}
OPSET = (13, 17)


class Reader(CalibrationDataReader):
    """One sample a run."""

    def __init__(self, model: str, data: str, samples: int) -> None:
        graph = onnx.load(model, load_external_data=False).graph
        ranks = {value.name: len(value.type.tensor_type.shape.dim) for value in graph.input}
        with np.load(data) as stored:
            self._arrays = {name: (stored[name], ranks[name]) for name in stored.files}
        self._indices = iter(range(samples))

    def get_next(self) -> dict[str, np.ndarray] | None:  # type: ignore[type-arg]
        """The next sample, or None."""
        index = next(self._indices, None)
        if index is None:
            return None
        return {
            name: np.asarray(array[index]) if array.ndim > rank else array[index : index + 1]
            for name, (array, rank) in self._arrays.items()
        }


def main() -> None:
    """Quantize."""
    asked = _arguments()
    with tempfile.TemporaryDirectory() as folder:
        model = str(Path(folder) / "prepared.onnx")
        _pre_process(prepared(asked.model, folder, asked.input_shapes, OPSET), model, fuses=not asked.nodes)
        quantize_static(
            model,
            asked.output,
            Reader(model, asked.data, asked.samples),
            quant_format=QuantFormat.QDQ,
            per_channel=True,
            activation_type=TYPES[asked.type],
            weight_type=TYPES[asked.type],
            calibrate_method=METHODS[asked.method],
            nodes_to_quantize=json.loads(Path(asked.nodes).read_text()) if asked.nodes else None,
            extra_options={"ActivationSymmetric": True, "WeightSymmetric": True, "QuantizeBias": False},
        )


def _pre_process(model: str, output: str, *, fuses: bool) -> None:
    """Its symbolic shape inference gives up on branches and some resizes; the rest of the step needs it not.

    Nodes that it fuses, as MatMul and Add to Gemm, get names of their own, which nobody can ask for.
    """
    try:
        quant_pre_process(model, output, skip_optimization=not fuses)
    except Exception:  # noqa: BLE001 - it raises AssertionError and Exception itself
        quant_pre_process(model, output, skip_optimization=not fuses, skip_symbolic_shape=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("data")
    parser.add_argument("samples", type=int)
    parser.add_argument("output")
    parser.add_argument("method", choices=METHODS)
    parser.add_argument("--type", choices=TYPES, default="int8")
    parser.add_argument("--input-shapes", default="")
    parser.add_argument("--nodes", default="", help="JSON file with the names of the nodes to quantize; default all")
    return parser.parse_args()


if __name__ == "__main__":
    main()
