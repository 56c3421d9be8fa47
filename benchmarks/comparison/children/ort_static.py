"""ONNX Runtime's static quantization with the settings that TensorRT needs.

``ort_static.py MODEL DATA.npz SAMPLES OUTPUT METHOD [int8|fp8]``: quant_pre_process, then quantize_static in QDQ
form with symmetric activations and weights, one weight scale a channel, and biases left float.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

METHODS = {
    "max": CalibrationMethod.MinMax,
    "entropy": CalibrationMethod.Entropy,
    "percentile": CalibrationMethod.Percentile,
    "distribution": CalibrationMethod.Distribution,
}
TYPES = {"int8": QuantType.QInt8, "fp8": QuantType.QFLOAT8E4M3FN}


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
    model, data, samples, output, method = sys.argv[1:6]
    kind = TYPES[sys.argv[6] if len(sys.argv) > 6 else "int8"]
    with tempfile.TemporaryDirectory() as folder:
        prepared = str(Path(folder) / "prepared.onnx")
        quant_pre_process(model, prepared)
        quantize_static(
            prepared,
            output,
            Reader(prepared, data, int(samples)),
            quant_format=QuantFormat.QDQ,
            per_channel=True,
            activation_type=kind,
            weight_type=kind,
            calibrate_method=METHODS[method],
            extra_options={"ActivationSymmetric": True, "WeightSymmetric": True, "QuantizeBias": False},
        )


if __name__ == "__main__":
    main()
