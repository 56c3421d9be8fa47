"""ONNX test data: a file for each input, by position."""

import os

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from support.data_files import XY, X, array, save_sets

from qdqtool.errors import UsageError
from qdqtool.samples.feeds import load_feeds
from qdqtool.samples.readers import test_data_set


def test_one_folder_is_one_run_and_folders_come_by_number(tmp_path):
    folder = save_sets(tmp_path / "d", array(11))
    assert len(list(test_data_set.read(folder / "test_data_set_3", X))) == 1
    np.testing.assert_array_equal(np.concatenate([sample["x"] for sample in test_data_set.read(folder, X)]), array(11))


def test_folders_without_the_first_input_are_no_test_data(tmp_path):
    (tmp_path / "test_data_set_0").mkdir()
    assert not test_data_set.accepts(tmp_path)
    (tmp_path / "test_data_set_0" / "input_0.pb").write_bytes(b"")
    assert test_data_set.accepts(tmp_path)


def test_test_data_files_go_to_the_inputs_by_their_order_whatever_their_names(tmp_path):
    ids = np.arange(3, dtype=np.int64)[None]
    for index, value in enumerate((array(1), ids)):
        tensor = numpy_helper.from_array(value, "some other name")
        (tmp_path / f"input_{index}.pb").write_bytes(tensor.SerializeToString())
    (sample,) = load_feeds(tmp_path, XY)
    assert np.array_equal(sample["x"], array(1))
    assert np.array_equal(sample["ids"], ids)


def test_test_data_without_the_file_of_an_input_names_it(tmp_path):
    with pytest.raises(UsageError, match=r"has no input_1\.pb, the file of input 'ids'"):
        load_feeds(save_sets(tmp_path / "d", array(1)), XY)


def test_test_data_with_a_file_too_many_is_an_error(tmp_path):
    (tmp_path / "input_0.pb").write_bytes(b"")
    (tmp_path / "input_1.pb").write_bytes(b"")
    with pytest.raises(UsageError, match=r"has input_1\.pb, and the model has only 1 inputs: x"):
        load_feeds(tmp_path, X)


@pytest.mark.parametrize("data", [b"garbage that is no protobuf", b"\x08\x02\x10\x01"])
def test_test_data_that_is_no_tensor_is_an_error(data, tmp_path):
    (tmp_path / "input_0.pb").write_bytes(data)
    with pytest.raises(UsageError, match="is no TensorProto with data"):
        load_feeds(tmp_path, X)


def test_test_data_never_follows_external_data(tmp_path):
    (tmp_path / "secret").write_bytes(array(1).tobytes())
    tensor = onnx.TensorProto(data_type=1, dims=[1, 2, 3], data_location=onnx.TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="secret")
    (tmp_path / "input_0.pb").write_bytes(tensor.SerializeToString())
    with pytest.raises(UsageError, match="another file, which is not followed"):
        load_feeds(tmp_path, X)


def test_samples_have_the_name_of_their_folder(tmp_path):
    folder = save_sets(tmp_path / "d", array(2))
    assert [sample.files for sample in load_feeds(folder, X)] == [("test_data_set_0",), ("test_data_set_1",)]


def test_a_link_out_of_the_folder_and_a_pipe_are_refused(tmp_path):
    folder = save_sets(tmp_path / "d", array(2))
    save_sets(tmp_path / "other", array(1))
    (folder / "test_data_set_2").symlink_to("test_data_set_0")
    assert len(list(test_data_set.read(folder, X))) == 3
    (folder / "test_data_set_3").symlink_to("../other/test_data_set_0")
    with pytest.raises(UsageError, match=r"input_0\.pb is a link to a file outside"):
        test_data_set.read(folder, X)
    os.mkfifo(tmp_path / "other/test_data_set_0/input_1.pb")
    with pytest.raises(UsageError, match=r"input_1\.pb is no regular file"):
        test_data_set.read(tmp_path / "other", XY)
