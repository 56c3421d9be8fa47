"""NVIDIA Model Optimizer: ``model_optimizer.py MODEL DATA.npz SAMPLES OUTPUT MODE METHOD``.

Its defaults, but for what makes the result comparable: everything that is not quantized stays float32, and the CPU
calibrates. It writes over the file that it reads, so it gets a copy.
"""

import argparse
import shutil
import tempfile
from pathlib import Path

import numpy as np
import onnx
from modelopt.onnx.autocast import convert_to_mixed_precision
from modelopt.onnx.quantization import quantize
from onnxruntime.quantization import CalibrationDataReader
from peer_input import prepared


class Reader(CalibrationDataReader):
    """One sample a run; needed where a row of the data holds a complete input."""

    def __init__(self, ranks: dict[str, int], arrays: dict[str, np.ndarray]) -> None:  # type: ignore[type-arg]
        self._ranks, self._arrays = ranks, arrays
        self.rewind()

    def rewind(self) -> None:
        """From the first sample again."""
        self._indices = iter(range(len(next(iter(self._arrays.values())))))

    def get_first(self) -> dict[str, np.ndarray]:  # type: ignore[type-arg]
        """The first sample."""
        return self._sample(0)

    def get_next(self) -> dict[str, np.ndarray] | None:  # type: ignore[type-arg]
        """The next sample, or None."""
        index = next(self._indices, None)
        return None if index is None else self._sample(index)

    def _sample(self, index: int) -> dict[str, np.ndarray]:  # type: ignore[type-arg]
        return {
            name: np.asarray(array[index]) if array.ndim > self._ranks[name] else array[index : index + 1]
            for name, array in self._arrays.items()
        }


def main() -> None:
    """Quantize."""
    asked = _arguments()
    options = {"block_size": asked.block_size} if asked.block_size else {}
    graph = onnx.load(asked.model, load_external_data=False).graph
    ranks = {value.name: len(value.type.tensor_type.shape.dim) for value in graph.input}
    with np.load(asked.data) as stored:
        arrays = {name: stored[name][: asked.samples] for name in stored.files}
    complete = any(array.ndim > ranks[name] for name, array in arrays.items())
    source = {"calibration_data_reader": Reader(ranks, arrays)} if complete else {"calibration_data": arrays}
    with tempfile.TemporaryDirectory() as folder:
        if asked.mode == "fp16":
            _cast(asked, Reader(ranks, arrays), folder)
            return
        copy = shutil.copy(prepared(asked.model, folder, asked.input_shapes), Path(folder) / "model.onnx")
        quantize(
            str(copy),
            quantize_mode=asked.mode,
            calibration_method=asked.method,
            calibration_eps=["cpu"],
            high_precision_dtype="fp32",
            output_path=asked.output,
            log_level="ERROR",
            **source,
            **options,
        )


def _cast(asked: argparse.Namespace, samples: Reader, folder: str) -> None:
    """Convert to float16 with AutoCast, which gets one file a sample, or makes random inputs if the method says so."""
    data = Path(folder) / "samples"
    data.mkdir()
    for number in range(asked.samples):
        np.savez(data / f"{number}.npz", **samples.get_next())
    calibration = None if asked.method == "no data" else str(data)
    model = prepared(asked.model, folder, asked.input_shapes)
    onnx.save(convert_to_mixed_precision(model, "fp16", keep_io_types=True, calibration_data=calibration), asked.output)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("data")
    parser.add_argument("samples", type=int)
    parser.add_argument("output")
    parser.add_argument("mode", choices=("int8", "fp8", "int4", "fp16"))
    parser.add_argument("method")
    parser.add_argument("--block-size", type=int)
    parser.add_argument("--input-shapes", default="")
    return parser.parse_args()


if __name__ == "__main__":
    main()
