"""Archives and single arrays: an array for each input by name, or for the one input, and labels for test sets."""

import pickle

import numpy as np
import pytest
from support.data_files import F32, XY, X, array, save_npy, save_npz

from qdqtool.errors import UsageError
from qdqtool.samples.feeds import load_feeds
from qdqtool.samples.readers import npy, npz
from qdqtool.samples.signature import InputSpec

IDS = np.arange(35, dtype=np.int64).reshape(5, 7)
LABELS = np.arange(10, 15)


def test_arrays_go_to_the_inputs_by_name_whatever_their_order(tmp_path):
    samples = list(npz.read(save_npz(tmp_path / "d.npz", ids=IDS, x=array()), XY))
    assert [list(sample) for sample in samples] == [["x", "ids"]] * 5
    for number, sample in enumerate(samples):
        np.testing.assert_array_equal(sample["x"], array()[number : number + 1])
        np.testing.assert_array_equal(sample["ids"], IDS[number : number + 1])


def test_the_ending_decides_in_any_case_of_letters(tmp_path):
    for name, accepted in (("a.npz", True), ("b.NPZ", True), ("c.zip", False)):
        (tmp_path / name).write_bytes(b"")
        assert npz.accepts(tmp_path / name) is accepted
    (tmp_path / "folder.npz").mkdir()
    assert not npz.accepts(tmp_path / "folder.npz")


def test_labels_are_no_input_of_a_run_unless_the_model_has_one_of_that_name(tmp_path):
    path = save_npz(tmp_path / "d.npz", x=array(), labels=LABELS)
    assert [list(sample) for sample in npz.read(path, X)] == [["x"]] * 5
    fed = (*X, InputSpec("labels", LABELS.dtype, ("batch",)))
    assert [int(sample["labels"][0]) for sample in npz.read(path, fed)] == LABELS.tolist()
    with pytest.raises(UsageError, match="'labels' is an input of the model, so it cannot hold the labels"):
        npz.read(path, fed).with_labels()


def test_labels_come_with_their_rows_and_not_for_the_rows_that_pad_the_last_batch(tmp_path):
    batches = (InputSpec("x", F32, (3, 2, 3)),)
    first, second = npz.read(save_npz(tmp_path / "d.npz", x=array(), labels=LABELS), batches).with_labels()
    assert (first.labels.tolist(), second.labels.tolist()) == ([10, 11, 12], [13, 14])
    assert second["x"].shape == (3, 2, 3)
    assert len(second.without_filler(second["x"])) == 2


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.int64(3), "'labels' is one number; it must have a row for each row of the inputs"),
        (LABELS[:4], "'labels' has 4 rows, but the inputs have other numbers of rows: x 5"),
    ],
)
def test_labels_that_fit_no_sample_are_refused(labels, message, tmp_path):
    with pytest.raises(UsageError, match=message):
        npz.read(save_npz(tmp_path / "d.npz", x=array(), labels=labels), X).with_labels()


def test_without_labels_the_hint_says_how_to_save_them(tmp_path):
    with pytest.raises(UsageError, match="has no labels for the metric") as caught:
        npz.read(save_npz(tmp_path / "d.npz", x=array()), X).with_labels()
    assert "numpy.savez(file, x=..., labels=...)" in caught.value.hint


def test_a_folder_under_the_path_of_an_archive_cannot_be_read(tmp_path):
    with pytest.raises(UsageError, match="cannot be read: Is a directory"), npz.readable(tmp_path):
        tmp_path.open("rb")


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        ({"y": array(), "ids": IDS}, r"'y' is no input of the model; its inputs: x, ids"),
        ({"xx": array(), "ids": IDS}, r"'xx' is no input of the model; its inputs: x, ids; did you mean 'x'\?"),
        ({"x": array()}, "input 'ids' is missing"),
        ({"x": array(3), "ids": IDS[:4]}, "different number of samples for each input: x 3, ids 4"),
    ],
)
def test_arrays_that_are_not_those_of_the_inputs_are_named(arrays, says, tmp_path):
    with pytest.raises(UsageError, match=says):
        load_feeds(save_npz(tmp_path / "d.npz", **arrays), XY)


def test_a_pickle_under_an_npz_name_is_refused(tmp_path):
    path = tmp_path / "d.npz"
    path.write_bytes(pickle.dumps([1, 2]))
    with pytest.raises(UsageError, match=r"is not a readable \.npz file"):
        load_feeds(path, X)


def test_arrays_that_are_the_inputs_of_one_run_are_one_sample(tmp_path):
    graph = (InputSpec("nodes", F32, ("n", 3)), InputSpec("edges", np.dtype(np.int64), (2, "e")))
    folder = tmp_path / "d"
    folder.mkdir()
    for count in (5, 7):
        np.savez(folder / f"{count}.npz", nodes=np.ones((count, 3), np.float32), edges=np.zeros((2, 9), np.int64))
    shapes = [(sample["nodes"].shape, sample["edges"].shape) for sample in load_feeds(folder, graph)]
    assert shapes == [((5, 3), (2, 9)), ((7, 3), (2, 9))]


def test_the_array_goes_to_the_one_input_that_there_is(tmp_path):
    samples = npy.read(save_npy(tmp_path / "d.npy", array(3)), (InputSpec("any name", F32, None),))
    assert [list(sample) for sample in samples] == [["any name"]] * 3


@pytest.mark.parametrize(("specs", "inputs"), [((), "0 inputs: none"), (XY, "2 inputs: x, ids")])
def test_an_array_needs_a_model_with_one_input(specs, inputs, tmp_path):
    with pytest.raises(UsageError, match=f"holds one array, and the model has {inputs}"):
        load_feeds(save_npy(tmp_path / "d.npy", array()), specs)


def test_a_file_that_has_gone_cannot_be_read(tmp_path):
    with pytest.raises(UsageError, match=r"gone\.npy cannot be read: No such file or directory"):
        npy.read(tmp_path / "gone.npy", X)
