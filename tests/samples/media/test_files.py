"""Which files of a folder are of a kind, and their order."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from qdqtool.samples.media.files import IMAGE, SOUND, by_number


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
