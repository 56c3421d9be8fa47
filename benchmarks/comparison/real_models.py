"""The models in the folder that ``QDQTOOL_REAL_MODELS`` names, each with inputs that it can make something of.

None of the data is recorded: it is made up from a seed, so that the same figures come out everywhere.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime

from benchmarks.comparison import faces, file_contents, speech
from qdqtool.numerics.dtypes import Array

FOLDER = "QDQTOOL_REAL_MODELS"
FACE_SIZE = (240, 320)
YUNET_SIZE = (256, 320)
"""Its strides want multiples of 32."""
SPEECH_CONTEXT, SPEECH_STEP = 64, 512
"""Samples of sound before the new ones that a window repeats, and those new ones."""
WINDOWS_SKIPPED = 5
"""Of the windows heard one after the other, one in so many is used: they tell more than neighbours do."""


@dataclass(frozen=True, slots=True)
class ModelFeed:
    """How to feed a model.

    Attributes:
        inputs: Given its path, the number of samples and a seed.
        tests: Samples to measure on.
        metric: As of a :class:`~benchmarks.comparison.subjects.Subject`.
        input_shapes: The same.
    """

    inputs: Callable[[Path, int, int], dict[str, Array]]
    tests: int = 16
    metric: str = ""
    input_shapes: str = ""


def paths() -> dict[str, Path]:
    """By their names; none if the environment names no folder."""
    folder = os.environ.get(FOLDER)
    return {path.stem: path for path in sorted(Path(folder).glob("*.onnx"))} if folder else {}


def known(path: Path) -> ModelFeed:
    """How to feed one of them.

    Raises:
        SystemExit: There is no telling what it takes.
    """
    if path.stem not in _KNOWN:
        raise SystemExit(f"model '{path.stem}' is not known; {FOLDER} may hold: {', '.join(_KNOWN)}")
    return _KNOWN[path.stem]


def _normalized(_: Path, count: int, seed: int) -> dict[str, Array]:
    """Red, green, blue, from -1 to 1."""
    return {"input": (faces.images(count, FACE_SIZE, seed) - np.float32(127)) / np.float32(128)}


def _pixels(_: Path, count: int, seed: int) -> dict[str, Array]:
    """Blue, green, red, from 0 to 255."""
    return {"input": np.ascontiguousarray(faces.images(count, YUNET_SIZE, seed)[:, ::-1])}


def _file_ends(_: Path, count: int, seed: int) -> dict[str, Array]:
    return {"bytes": np.array([file_contents.ends(one) for one in file_contents.contents(count, seed)], np.int32)}


def _speech(path: Path, count: int, seed: int) -> dict[str, Array]:
    """Windows of one speech, each with the state that the float model has come to; complete inputs."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    windows = count * WINDOWS_SKIPPED
    sound = speech.sound((SPEECH_CONTEXT + windows * SPEECH_STEP) / speech.RATE, seed)
    state, made = np.zeros((2, 1, 128), np.float32), list[dict[str, Array]]()
    for start in range(0, windows * SPEECH_STEP, SPEECH_STEP):
        window = sound[None, start : start + SPEECH_CONTEXT + SPEECH_STEP]
        made.append({"input": window, "state": state, "sr": np.array(speech.RATE)})
        _, state = session.run(["output", "stateN"], made[-1])
    used = made[::WINDOWS_SKIPPED]
    return {name: np.stack([one[name] for one in used]) for name in used[0]}


_KNOWN = {
    "face_slim_320": ModelFeed(_normalized),
    "face_slim_320_unfolded_opset9": ModelFeed(_normalized),
    "magika_fast_v2_1": ModelFeed(_file_ends, tests=63, metric="agreement"),
    "silero_vad_16k_op15": ModelFeed(_speech, tests=64, input_shapes="input:1x576,state:2x1x128"),
    "yunet_n_dynamic": ModelFeed(_pixels),
}
