"""The uneven twin of the depthwise sample computes the same as the sample, with channels of very uneven ranges."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from support.paths import ROOT
from support.small import run

from sample_models.uneven import with_uneven_channels

SAMPLE = ROOT / "sample_models" / "digits_depthwise"
ROUNDINGS = 64
"""Float32 roundings that a scaled sum may differ by, relative to the largest output: some 8 a layer."""


@pytest.fixture(scope="module")
def images() -> np.ndarray:
    with np.load(SAMPLE / "test.npz") as stored:
        return stored["image"]


def weights(path: Path) -> dict[str, np.ndarray]:
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in onnx.load(path).graph.initializer}


def test_it_computes_the_same(images):
    (even,) = run(str(SAMPLE / "model.onnx"), {"image": images})
    (uneven,) = run(str(SAMPLE / "uneven.onnx"), {"image": images})
    assert not np.array_equal(even, uneven)
    assert np.abs(even - uneven).max() <= ROUNDINGS * 2**-24 * np.abs(even).max()


def test_factors_stay_within_four_doublings_and_fill_that_range():
    before, after = weights(SAMPLE / "model.onnx"), weights(SAMPLE / "uneven.onnx")
    changed = [name for name in before if name.endswith(".bias") and not np.array_equal(before[name], after[name])]
    factors = np.concatenate([np.log2(before[name] / after[name]) for name in changed])
    assert len(changed) == 8  # nothing behind the skip Add, and not the classifier
    assert np.abs(factors).max() <= 4 + 1e-5
    assert factors.max() > 3.8
    assert factors.min() < -3.8


def test_the_file_is_what_the_script_makes_of_the_sample():
    made = with_uneven_channels(onnx.load(SAMPLE / "model.onnx"), seed=20261121)
    assert made.SerializeToString(deterministic=True) == (SAMPLE / "uneven.onnx").read_bytes()


def test_the_model_stays_as_it_is():
    model = onnx.load(SAMPLE / "model.onnx")
    with_uneven_channels(model, seed=1)
    assert model == onnx.load(SAMPLE / "model.onnx")
