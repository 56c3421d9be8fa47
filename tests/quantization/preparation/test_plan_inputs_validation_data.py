"""Validation data is checked against the model, and recognized where it is the calibration data."""

from pathlib import Path

import numpy as np
import pytest
from support.small import conv_model

from qdqtool.errors import UsageError
from qdqtool.models.graph.model import Model
from qdqtool.quantization.preparation.plan_inputs import open_validation
from qdqtool.samples.request import open_feeds
from qdqtool.samples.sample import data_digest, sample_digest
from qdqtool.samples.split import SAME_DATA


def test_data_of_the_same_samples_is_the_calibration_data_whatever_its_name(tmp_path: Path) -> None:
    images, model = np.random.default_rng(2).normal(size=(5, 3, 8, 8)).astype(np.float32), Model(conv_model())
    for name, array in (("d.npz", images), ("same.npz", images), ("fewer.npz", images[:4])):
        np.savez(tmp_path / name, x=array)
    calibration = data_digest([sample_digest(sample) for sample in open_feeds(model, tmp_path / "d.npz")])
    same, fewer = (open_validation(model, tmp_path / name) for name in ("same.npz", "fewer.npz"))
    assert (same.beside(calibration).validation, same.beside(calibration).reason) == (None, SAME_DATA)
    for found in (fewer.beside(calibration), same.beside(None), same.alone()):
        assert (found.validation, found.reason, found.held_back) == (found.feeds.description.source, "", False)
    assert len(fewer.alone().feeds) == 4


def test_a_sample_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", x=np.zeros((2, 3, 8, 9), np.float32))
    with pytest.raises(UsageError, match=r"sample 0: input 'x' has shape"):
        open_validation(Model(conv_model()), tmp_path / "d.npz")
