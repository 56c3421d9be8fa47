"""Which files of a folder are images, and their order."""

from qdqtool.data.images.files import has_images, image_files


def test_images_are_found_in_nested_folders_in_order_and_the_rest_is_left_out(tmp_path):
    for name in ("b/2.JPG", "b/10.jpeg", "a.png", "c/d/e.webp", "Thumbs.db", "notes.txt", ".x.png", ".cache/y.png"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    found = [file.relative_to(tmp_path).as_posix() for file in image_files(tmp_path)]
    assert found == ["a.png", "b/2.JPG", "b/10.jpeg", "c/d/e.webp"]


def test_a_folder_of_other_files_has_none(tmp_path):
    (tmp_path / "Thumbs.db").touch()
    (tmp_path / ".x.png").touch()
    assert not has_images(tmp_path)
