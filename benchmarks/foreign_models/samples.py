"""The inputs of the networks, and the files of one sample model. Needs NumPy and ONNX."""

import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnx.version_converter

from benchmarks.networks import network
from benchmarks.networks.network import stacked
from qdqtool.numerics.dtypes import Array

CHANNELS, CLASSES, LENGTH, SIZE = 256, 32, 32, 32
SEED, CALIBRATED_ON, TEST_SAMPLES = 7, 12, 8
FLOAT = "float"
"""The folder, inside that of the samples, where the float models of the torch networks are."""

SAMPLES = {
    "conv": network.image(SIZE),
    "block": network.normal(x=(1, LENGTH, CHANNELS)),
    "mlp": network.normal(x=(1, LENGTH, CHANNELS)),
}
"""What makes one input of each torch network."""

Arrays = dict[str, Array]


@dataclass(frozen=True, slots=True)
class Sample:
    """One model to be made.

    Attributes:
        network: The network that is quantized.
        path: Where the quantized model belongs.
    """

    network: str
    path: Path

    @property
    def float_path(self) -> Path:
        """Where the float model is, in front of quantizing."""
        return self.path.with_suffix(".float.onnx")

    def data_path(self, part: str) -> Path:
        """Return where the arrays of ``calib`` or ``test`` are."""
        return self.path.with_suffix(f".{part}.npz")

    def calibration(self) -> Iterator[Arrays]:
        """Yield the inputs to calibrate on, one complete sample each."""
        with np.load(self.data_path("calib")) as stored:
            arrays = dict(stored)
        for index in range(CALIBRATED_ON):
            yield {name: array[index] for name, array in arrays.items()}

    def first(self) -> Arrays:
        """Return the first input to calibrate on."""
        return next(self.calibration())

    def float_model(self, opset: int | None = None) -> onnx.ModelProto:
        """Return the float model, in an opset if one is given."""
        model = onnx.load(self.float_path)
        return model if opset is None else onnx.version_converter.convert_version(model, opset)

    def prepare(self) -> None:
        """Write the inputs to calibrate on and to measure on, and the float model of a torch network."""
        if self.network in SAMPLES:
            shutil.copy(self.path.parent / FLOAT / f"{self.network}.onnx", self.float_path)
            self.write_data(SAMPLES[self.network])

    def write_data(self, make: Callable[[np.random.Generator], Arrays]) -> None:
        """Write the inputs that ``make`` returns."""
        random = np.random.default_rng(SEED)
        for part, count in (("calib", CALIBRATED_ON), ("test", TEST_SAMPLES)):
            np.savez(self.data_path(part), **stacked(make(random) for _ in range(count)))


Write = Callable[[Sample], None]
"""Writes the quantized model of a sample."""

Modes = dict[str, tuple[str, Write]]


class Reader:
    """Hands out inputs one by one, as ONNX Runtime's quantizer and its descendants ask for them."""

    def __init__(self, inputs: Iterable[Arrays]) -> None:
        self._inputs = list(inputs)
        self._rest = iter(self._inputs)

    def get_next(self) -> Arrays | None:
        """Return the next input, or nothing after the last."""
        return next(self._rest, None)

    def rewind(self) -> None:
        """Begin again."""
        self._rest = iter(self._inputs)

    def __iter__(self) -> Iterator[Arrays]:
        return iter(self._inputs)
