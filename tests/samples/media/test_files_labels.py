"""Labels of images: numbers of folders as torchvision gives them, rows of a CSV file, and nothing that is guessed."""

import pytest
from support.pictures import picture, save_picture

from qdqtool.errors import UsageError
from qdqtool.samples.media.files import IMAGE, csv_labels, folder_labels
from qdqtool.samples.sample import NoLabelsError


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
