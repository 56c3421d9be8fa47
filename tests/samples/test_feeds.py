"""Data files are checked before anything runs, and every iteration gives the same samples."""

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
from support.feeds import numbered

from qdqtool.errors import UsageError
from qdqtool.samples.feeds import load_feeds
from qdqtool.samples.signature import InputSpec

F32 = np.dtype(np.float32)
SPECS = (InputSpec("image", F32, (1, 3, 4)), InputSpec("length", np.dtype(np.int64), ()))
DYNAMIC = (InputSpec("x", F32, ("N", 8)),)


def save(folder: Path, **arrays: object) -> Path:
    path = folder / "data.npz"
    np.savez(path, **arrays)
    return path


def image(samples: int = 2, dtype: type = np.float32) -> np.ndarray:
    return np.arange(samples * 12).reshape(samples, 3, 4).astype(dtype)


LENGTH = np.array([5, 6], np.int64)


# --- parts ---


def test_a_sample_of_a_part_keeps_its_number_in_the_data() -> None:
    feeds = numbered(9)
    part = feeds.only([7, 2, 5])
    assert [part.number_in_data(position) for position in range(3)] == [2, 5, 7]
    assert part.only([0, 2]).number_in_data(1) == part.first(3).number_in_data(2) == 7
    assert [feeds.number_in_data(position) for position in (0, 8)] == [0, 8]


def test_samples_come_with_their_numbers_in_the_data() -> None:
    part = numbered(9).only([7, 2, 5])
    for feeds in (part, part.first(2), part.only([0, 2]), numbered(3)):
        assert [number for number, _ in feeds.numbered()] == [int(sample["x"][0]) for sample in feeds]
    assert [number for number, _ in part.only([0, 2]).numbered()] == [2, 7]


# --- reading ---


def test_samples_come_one_by_one_along_the_first_axis(tmp_path: Path) -> None:
    feeds = load_feeds(save(tmp_path, image=image(), length=LENGTH), SPECS)
    assert len(feeds) == 2
    first, second = feeds
    assert first["image"].shape == (1, 3, 4)
    assert second["image"].tolist() == image()[1:].tolist()
    assert (first["length"].shape, int(second["length"])) == ((), 6)
    assert [s["image"].tolist() for s in feeds] == [first["image"].tolist(), second["image"].tolist()]  # again
    assert feeds.description.shapes == {"image": (1, 3, 4), "length": ()}


def test_a_fixed_batch_takes_its_rows_and_a_dynamic_one_takes_one(tmp_path: Path) -> None:
    fixed = (InputSpec("x", F32, (4, 8)),)
    x = np.arange(64, dtype=np.float32).reshape(8, 8)
    path = save(tmp_path, x=x)
    assert [sample["x"].tolist() for sample in load_feeds(path, fixed)] == [x[:4].tolist(), x[4:].tolist()]
    assert [sample["x"].shape for sample in load_feeds(path, DYNAMIC)] == [(1, 8)] * 8


def test_one_axis_more_means_one_whole_input_a_row(tmp_path: Path) -> None:
    state = np.arange(24, dtype=np.float32).reshape(3, 2, 1, 4)
    feeds = load_feeds(save(tmp_path, state=state), (InputSpec("state", F32, (2, "batch", 4)),))
    assert [sample["state"].tolist() for sample in feeds] == state.tolist()


def test_a_scalar_is_the_same_in_every_sample(tmp_path: Path) -> None:
    feeds = load_feeds(save(tmp_path, image=image(), length=np.int64(7)), SPECS)
    assert [int(sample["length"]) for sample in feeds] == [7, 7]


@pytest.mark.parametrize("save_with", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("order", ["C", "F"])
def test_compressed_and_fortran_ordered_arrays_read_the_same(tmp_path: Path, save_with: object, order: str) -> None:
    x = np.random.default_rng(0).normal(size=(5, 8)).astype(np.float32)
    save_with(tmp_path / "d.npz", x=np.asarray(x, order=order))
    assert np.concatenate([sample["x"] for sample in load_feeds(tmp_path / "d.npz", DYNAMIC)]).tolist() == x.tolist()


def test_only_so_many_samples_are_used_when_told(tmp_path: Path) -> None:
    feeds = load_feeds(save(tmp_path, x=np.zeros((9, 8), np.float32)), DYNAMIC, limit=4)
    assert (len(feeds), len(list(feeds)), feeds.description.samples) == (4, 4, 4)


# --- refusing ---


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (
            {"imagee": image(), "length": LENGTH},
            "'imagee' is no input of the model; its inputs: image, length; did you mean 'image'",
        ),
        ({"image": image()}, "input 'length' is missing; found: image"),
        ({"image": image(dtype=np.float64), "length": LENGTH}, "'image' has type float64; the model takes float32"),
        (
            {"image": image()[..., :2], "length": LENGTH},
            r"'image' has shape \[1, 3, 2\]; the model takes image: float32 \[1, 3, 4\]",
        ),
        ({"image": image()[0, 0], "length": LENGTH}, r"'image' has shape \[4\]"),
        ({"image": image(3), "length": LENGTH}, "different number of samples for each input: image 3, length 2"),
        ({"image": image(0), "length": LENGTH[:0]}, "has no samples"),
        ({"image": np.array([None, image()], object), "length": LENGTH}, "pickled Python objects"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(tmp_path: Path, arrays: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        load_feeds(save(tmp_path, **arrays), SPECS)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_values_that_are_not_finite_are_refused_with_their_place_in_any_sample(tmp_path: Path, bad: float) -> None:
    x = np.zeros((3, 8), np.float32)
    x[2, 5] = bad
    with pytest.raises(UsageError, match=rf"sample 2: input 'x' is {bad} at \[0, 5\]"):
        load_feeds(save(tmp_path, x=x), DYNAMIC)


def test_files_that_are_no_npz_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    with pytest.raises(UsageError, match="no such file"):
        load_feeds(path, DYNAMIC)
    path.write_bytes(b"not a zip file at all")
    with pytest.raises(UsageError, match="not a readable"):
        load_feeds(path, DYNAMIC)
    other = tmp_path / "data.csv"
    other.write_text("1,2")
    with pytest.raises(UsageError, match=r"of no known kind; legal: .*\.npz file"):
        load_feeds(other, DYNAMIC)


def test_a_truncated_archive_and_a_lying_header_are_refused(tmp_path: Path) -> None:
    whole = save(tmp_path, x=np.zeros((3, 8), np.float32)).read_bytes()
    cut = tmp_path / "cut.npz"
    cut.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UsageError, match="not a readable"):
        load_feeds(cut, DYNAMIC)
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": (10**12, 8)})
    with zipfile.ZipFile(tmp_path / "lie.npz", "w") as archive:
        archive.writestr("x.npy", header.getvalue() + bytes(64))
    with pytest.raises(UsageError, match="'x' is damaged: 64 bytes of data"):
        load_feeds(tmp_path / "lie.npz", DYNAMIC)
