"""Folders: files in the order of their numbers, one kind of them, with labels beside the samples of each."""

import numpy as np
import pytest
from support.data_files import F32, X, array, save_npy, save_npy_folder, save_npz

from qdqtool.errors import UsageError
from qdqtool.samples.feeds import load_feeds
from qdqtool.samples.readers import numpy_folder
from qdqtool.samples.sample import NoLabelsError
from qdqtool.samples.signature import InputSpec


def test_npy_files_beside_npz_files_are_left_out(tmp_path):
    save_npz(tmp_path / "b.npz", x=array(2))
    save_npy(tmp_path / "a.npy", array(3))
    assert len(list(numpy_folder.read(tmp_path, X))) == 2


def test_a_folder_without_such_files_is_not_accepted(tmp_path):
    (tmp_path / "x.txt").write_text("")
    assert not numpy_folder.accepts(tmp_path)
    save_npy(tmp_path / "x.npy", array(1))
    assert numpy_folder.accepts(tmp_path)
    assert not numpy_folder.accepts(tmp_path / "x.npy")


def test_labels_come_from_every_file(tmp_path):
    for number in (2, 10):
        np.savez(tmp_path / f"{number}.npz", x=array(2), labels=np.full(2, number))
    samples = numpy_folder.read(tmp_path, X).with_labels()
    assert [int(sample.labels[0]) for sample in samples] == [2, 2, 10, 10]


def test_a_file_that_does_not_fit_is_named(tmp_path):
    save_npz(tmp_path / "1.npz", x=array(1))
    save_npz(tmp_path / "2.npz", y=array(1))
    with pytest.raises(UsageError, match=r"2\.npz: 'y' is no input of the model"):
        list(numpy_folder.read(tmp_path, X))


def test_a_folder_of_npy_files_has_no_place_for_labels(tmp_path):
    feeds = load_feeds(save_npy_folder(tmp_path / "d", array()), X)
    with pytest.raises(NoLabelsError, match="cannot hold labels"):
        feeds.with_labels()


@pytest.mark.parametrize(("without", "error"), [(0, NoLabelsError), (1, UsageError)])
def test_a_file_without_labels_is_found_before_any_sample_is_read(without, error, tmp_path):
    for number in range(3):
        labels = {} if number == without else {"labels": np.zeros(2, np.int64)}
        np.savez(tmp_path / f"{number}.npz", x=array(2), **labels)
    with pytest.raises(UsageError, match=rf"{without}\.npz has no labels for the metric") as refused:
        numpy_folder.read(tmp_path, X).with_labels()
    assert type(refused.value) is error


def test_samples_of_different_shapes_may_lie_in_one_folder(tmp_path):
    specs = (InputSpec("x", F32, (1, None)),)
    folder = tmp_path / "d"
    folder.mkdir()
    for length in (3, 11, 5):
        np.savez(folder / f"length_{length}.npz", x=np.ones((1, length), np.float32))
    assert [sample["x"].shape[1] for sample in load_feeds(folder, specs)] == [3, 5, 11]


def test_samples_have_the_name_of_their_file(tmp_path):
    save_npz(tmp_path / "2.npz", x=array(2))
    save_npz(tmp_path / "10.npz", x=array(1))
    assert [sample.files for sample in load_feeds(tmp_path, X)] == [("2.npz",), ("2.npz",), ("10.npz",)]


def test_a_link_out_of_the_folder_is_refused_and_one_inside_is_read(tmp_path):
    (tmp_path / "d").mkdir()
    save_npz(tmp_path / "d/1.npz", x=array(1))
    (tmp_path / "d/2.npz").symlink_to("1.npz")
    assert len(list(numpy_folder.read(tmp_path / "d", X))) == 2
    save_npz(tmp_path / "other.npz", x=array(1))
    (tmp_path / "d/3.npz").symlink_to(tmp_path / "other.npz")
    with pytest.raises(UsageError, match=r"3\.npz is a link to a file outside .*d"):
        numpy_folder.read(tmp_path / "d", X)
