"""Sound files for tests."""

from pathlib import Path

import numpy as np
import onnx
import soundfile

from qdqtool.numerics.dtypes import Array
from qdqtool.samples.signature import InputSpec
from support.networks import Network

F32 = np.dtype(np.float32)


def noise(frames: int, channels: int = 1, seed: int = 0) -> Array:
    """Random sound of shape [frames, channels] whose values 16 bits hold exactly."""
    codes = np.random.default_rng(seed).integers(-20000, 20000, (frames, channels))
    return (codes / 32768).astype(np.float32)


def save_sound(path: Path, values: Array, rate: int = 16000, subtype: str | None = "PCM_16") -> Path:
    """Write values of shape [frames, channels] to a sound file, whose name gives the format."""
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, values, rate, subtype=subtype if path.suffix == ".wav" else None)
    return path


def sound_spec(*shape: int | str | None, dtype: np.dtype[np.generic] = F32) -> tuple[InputSpec, ...]:
    """The one input ``x`` of a model."""
    return (InputSpec("x", dtype, shape),)


def sound_net() -> onnx.ModelProto:
    """x[1,1,64] -> Conv, Relu -> y."""
    net = Network()
    net.relu(net.conv("x", "y", (16, 1, 9)))
    return net.model({"x": (1, 1, 64)})
