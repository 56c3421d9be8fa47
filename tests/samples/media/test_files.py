"""Files of a kind in a folder, their order, their labels, and the batches that their rows become."""

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.pictures import picture, save_picture

from qdqtool.errors import UsageError
from qdqtool.samples.media.files import IMAGE, SOUND, BatchRow, batched, by_number, csv_labels, folder_labels
from qdqtool.samples.sample import NoLabelsError


def make(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()


def test_files_are_found_in_nested_folders_in_order_and_the_rest_is_left_out(tmp_path: Path) -> None:
    make(tmp_path, "b/2.JPG", "b/10.jpeg", "a.png", "c/d/e.webp", "Thumbs.db", "notes.txt", ".x.png", ".cache/y.png")
    make(tmp_path, "b/3.wav", "b/3.mp3")

    def found(kind):
        return [file.relative_to(tmp_path).as_posix() for file in kind.files(tmp_path)]

    assert found(IMAGE) == ["a.png", "b/2.JPG", "b/10.jpeg", "c/d/e.webp"]
    assert found(SOUND) == ["b/3.wav"]
    assert SOUND.files(tmp_path / "b/3.wav") == (tmp_path / "b/3.wav",)


def a_pipe(file: Path) -> None:
    os.mkfifo(file)


def a_link_out(file: Path) -> None:
    make(file.parent.parent, "outside.png")
    file.symlink_to("../outside.png")


def a_link_to_nothing(file: Path) -> None:
    file.symlink_to("nothing.png")


@pytest.mark.parametrize(
    ("put", "says"),
    [
        (a_pipe, r"z\.png is no regular file"),
        (a_link_to_nothing, r"z\.png is no regular file"),
        (a_link_out, r"z\.png is a link to a file outside .*data"),
    ],
)
def test_only_regular_files_of_the_folder_are_opened(put, says, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    make(folder, "a/1.png")
    (folder / "b.png").symlink_to("a/1.png")
    (tmp_path / "other").symlink_to("data")
    assert len(IMAGE.files(tmp_path / "other")) == 2
    put(folder / "z.png")
    with pytest.raises(UsageError, match=says):
        IMAGE.files(folder)


def test_a_folder_of_other_files_has_none(tmp_path: Path) -> None:
    make(tmp_path, "Thumbs.db", ".x.png")
    assert not IMAGE.is_in(tmp_path)
    make(tmp_path, "deep/er/x.Png")
    assert IMAGE.is_in(tmp_path)
    assert not SOUND.is_in(tmp_path)


@given(st.lists(st.integers(0, 300), unique=True, min_size=1))
def test_files_are_sorted_by_the_numbers_in_their_names(numbers):
    paths = sorted((Path(f"a/set_{number}_x{number % 7}.npy") for number in numbers), key=by_number)
    assert [path.name for path in paths] == [f"set_{number}_x{number % 7}.npy" for number in sorted(numbers)]


def test_names_that_differ_in_leading_zeros_or_have_no_number_have_an_order_too():
    names = ["b", "a", "a1", "a01", "a2"]
    assert [path.name for path in sorted(map(Path, names), key=by_number)] == ["a", "a01", "a1", "a2", "b"]


def rows(count: int, labels: bool = False):
    return [
        BatchRow({"x": np.full(2, at), "y": np.array(at)}, 10 + at if labels else None, f"{at // 2}.wav")
        for at in range(count)
    ]


def test_the_last_batch_repeats_its_last_row():
    first, last = batched(rows(3, labels=True), 2)
    assert first["x"].tolist() == [[0, 0], [1, 1]]
    assert first["y"].tolist() == [0, 1]
    assert last["x"].tolist() == [[2, 2], [2, 2]]
    assert (first.batch, first.filler, last.filler) == (2, 0, 1)
    assert (first.labels.tolist(), last.labels.tolist()) == ([10, 11], [12])


def test_a_batch_has_the_files_of_its_rows_each_once():
    assert [sample.files for sample in batched(rows(5), 4)] == [("0.wav", "1.wav"), ("2.wav",)]
    assert [sample.files for sample in batched([BatchRow({"x": np.ones(2)})], 4)] == [()]


def test_an_input_without_a_batch_takes_a_row_a_run():
    found = list(batched(rows(2), None))
    assert [sample["x"].tolist() for sample in found] == [[0, 0], [1, 1]]
    assert [(sample.batch, sample.filler, sample.labels) for sample in found] == [(1, 0, None)] * 2
    assert list(batched([], 4)) == []


def folder(tmp_path, *names):
    root = tmp_path / "d"
    for name in names:
        save_picture(root / name, picture(2, 2))
    return root, IMAGE.files(root)


def test_classes_are_numbered_in_the_order_of_their_names(tmp_path):
    root, files = folder(tmp_path, "dog/1.png", "cat/2.png", "cat/deep/3.png", "bird/10.png", "bird/9.png")
    assert [file.name for file in files] == ["9.png", "10.png", "2.png", "3.png", "1.png"]
    assert folder_labels(IMAGE, root, files) == (0, 0, 1, 1, 2)


def test_images_in_no_folders_have_no_labels(tmp_path):
    with pytest.raises(NoLabelsError) as caught:
        folder_labels(IMAGE, *folder(tmp_path, "1.png", "2.png"))
    assert "`--labels FILE.csv`" in caught.value.hint


def test_an_image_beside_the_folders_is_an_error(tmp_path):
    with pytest.raises(UsageError, match=r"2\.png lies beside the folders"):
        folder_labels(IMAGE, *folder(tmp_path, "a/1.png", "2.png"))


def test_a_class_without_images_would_shift_the_others(tmp_path):
    root, files = folder(tmp_path, "a/1.png", "c/1.png")
    (root / "b").mkdir()
    with pytest.raises(UsageError, match=r"b has no images, so that the numbers"):
        folder_labels(IMAGE, root, files)
    (root / "b").rename(root / ".b")
    assert folder_labels(IMAGE, root, files) == (0, 1)


def test_folders_named_by_other_numbers_than_those_of_the_classes_are_refused(tmp_path):
    root, files = folder(tmp_path, *(f"{number}/1.png" for number in range(11)))
    with pytest.raises(UsageError, match=r"folder '10' in .* would be class 2"):
        folder_labels(IMAGE, root, files)
    root, files = folder(tmp_path / "padded", *(f"{number:02}/1.png" for number in range(11)))
    assert folder_labels(IMAGE, root, files) == tuple(range(11))


@pytest.mark.parametrize("header", ["", "file,label\n", "\ufefffile,label\r\n"])
def test_a_csv_file_gives_the_label_of_each_file(header, tmp_path):
    root, files = folder(tmp_path, "a/1.png", "2.png")
    path = tmp_path / "labels.csv"
    path.write_bytes(f'{header}2.png,7\n\n"a/1.png", 3\n'.encode())
    assert dict(zip((file.name for file in files), csv_labels(IMAGE, path, root, files), strict=True)) == {
        "1.png": 3,
        "2.png": 7,
    }


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("1.png,0\n", r"has no label for '2\.png'"),
        ("1.png,0\n2.png,1\n3.png,1\n", r"names '3\.png', which is no image"),
        ("1.png,0\n2.png,1\n1.png,1\n", r"line 3: '1\.png' has a label already"),
        ("1.png,0\n2.png,cat\n", r"line 2: '2\.png,cat' is not FILE,LABEL"),
        ("1.png,0,5\n2.png,1\n", r"line 1: .* is not FILE,LABEL"),
        ("", "has no label for '1.png' and 1 other"),
        ("1.png,0.5\n1.png,1\n", "names|has no label"),
        ("\xff", "is no CSV file"),
    ],
)
def test_what_does_not_fit_is_named(text, says, tmp_path):
    root, files = folder(tmp_path, "1.png", "2.png")
    path = tmp_path / "labels.csv"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(UsageError, match=says):
        csv_labels(IMAGE, path, root, files)


def test_a_missing_csv_file(tmp_path):
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        csv_labels(IMAGE, tmp_path / "none.csv", *folder(tmp_path, "1.png"))
