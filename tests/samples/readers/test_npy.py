"""Single arrays: for the one input of a model, whatever its name."""

import numpy as np
import pytest
from support.data_files import F32, XY, X, array, save_npy

from qdqtool.errors import UsageError
from qdqtool.samples.feeds import load_feeds
from qdqtool.samples.readers import npy
from qdqtool.samples.signature import InputSpec


def test_the_array_goes_to_the_one_input_that_there_is(tmp_path):
    samples = npy.read(save_npy(tmp_path / "d.npy", array(3)), (InputSpec("any name", F32, None),))
    assert [list(sample) for sample in samples] == [["any name"]] * 3


def test_rows_that_pad_the_last_batch_are_counted(tmp_path):
    *_, last = npy.read(save_npy(tmp_path / "d.npy", array(5)), (InputSpec("x", F32, (4, 2, 3)),))
    np.testing.assert_array_equal(last["x"], array(5)[[4, 4, 4, 4]])
    assert (last.batch, last.filler) == (4, 3)


def test_a_model_without_inputs_takes_no_array(tmp_path):
    with pytest.raises(UsageError, match="holds one array, and the model has 0 inputs: none"):
        npy.read(save_npy(tmp_path / "d.npy", array()), ())


def test_a_file_that_has_gone_cannot_be_read(tmp_path):
    with pytest.raises(UsageError, match=r"gone\.npy cannot be read: No such file or directory"):
        npy.read(tmp_path / "gone.npy", X)


def test_an_npy_file_needs_a_model_with_one_input(tmp_path):
    with pytest.raises(UsageError, match="holds one array, and the model has 2 inputs: x, ids"):
        load_feeds(save_npy(tmp_path / "d.npy", array()), XY)
