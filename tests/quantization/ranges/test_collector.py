"""The ranges of the choosing part are collected beside those of all samples, in one run."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from support.small import conv_model

from qdqtool.jobs.calibrate import CalibrationPlace, calibrate
from qdqtool.quantization.planning.options import Preparation
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.quantization.ranges.file import encode_ranges, read_ranges
from qdqtool.quantization.ranges.shard import Shard
from qdqtool.quantization.ranges.types import CHUNK
from qdqtool.samples.request import FileData
from qdqtool.samples.split import split_samples

COUNT = 3 * CHUNK + 5
AS_IT_IS = Preparation(equalize=False, smoothquant=None, bias_correction=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model, and samples that grow, so that histograms are widened on the way."""
    onnx.save(conv_model(), tmp_path / "m.onnx")
    x = np.random.default_rng(5).normal(size=(COUNT, 3, 8, 8)).astype(np.float32)
    x *= np.linspace(0.1, 9, COUNT, dtype=np.float32)[:, None, None, None]
    np.savez(tmp_path / "all.npz", x=x)
    np.savez(tmp_path / "choosing.npz", x=x[list(split_samples(COUNT).choosing)])
    return tmp_path


@pytest.mark.parametrize("method", ["max", "entropy"])
def test_the_choosing_part_has_the_ranges_of_a_run_over_it_alone(folder, method):
    recipe = Recipe(method=method, preparation=AS_IT_IS)
    whole, alone = (calibrate(folder / "m.onnx", folder / name, recipe) for name in ("all.npz", "choosing.npz"))
    assert whole.choosing is not None
    assert dict(whole.choosing) == dict(alone.tensors)
    assert dict(whole.tensors) != dict(alone.tensors)


def test_the_model_runs_once_for_both(folder, monkeypatch):
    numbers: list[int] = []
    recipe = Recipe(method="max", preparation=AS_IT_IS)
    calibrate(folder / "m.onnx", folder / "all.npz", recipe, lambda number, _: numbers.append(number))
    assert numbers == list(range(COUNT))


def test_a_finished_file_does_not_keep_the_choosing_part(folder, tmp_path):
    for shard in (None, Shard(1, 2)):
        found = calibrate(
            folder / "m.onnx", folder / "all.npz", Recipe(preparation=AS_IT_IS), place=CalibrationPlace(shard=shard)
        )
        (tmp_path / "r.json").write_bytes(encode_ranges(found))
        assert found.choosing is not None
        assert read_ranges(tmp_path / "r.json").choosing is None


def test_few_samples_are_not_divided(folder):
    for samples, divided in ((3, False), (4, True)):
        data = FileData(path=folder / "all.npz", samples=samples)
        found = calibrate(folder / "m.onnx", data, Recipe(preparation=AS_IT_IS))
        assert (found.choosing is not None) is divided
