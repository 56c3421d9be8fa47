"""Laws of every reader: the same samples, and everything wrong is one clear message before any run."""

import re

import numpy as np
import pytest
from support.data_files import F32, LAYOUTS, X, array, layout, save_npy, save_npz

from qdqtool.errors import UsageError
from qdqtool.samples.feeds import load_feeds
from qdqtool.samples.signature import InputSpec

KINDS = list(LAYOUTS)


@pytest.mark.parametrize("kind", KINDS)
def test_every_layout_gives_the_same_samples_in_order_again_and_again(kind, tmp_path):
    x = array(12)  # 12: ten and eleven come after nine, whatever the letters say
    feeds = load_feeds(layout(kind, tmp_path, x), X)
    for _ in range(2):
        got = [sample["x"] for sample in feeds]
        assert [sample.shape for sample in got] == [(1, 2, 3)] * 12
        assert np.array_equal(np.concatenate(got), x)
    assert len(feeds) == 12
    assert feeds.description.shapes == {"x": (1, 2, 3)}


def with_nan(x):
    x[3, 1, 2] = np.nan
    return x


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (with_nan, "sample 3: input 'x' is nan at [0, 1, 2]"),
        (lambda x: x.astype(np.float64), "sample 0: input 'x' has type float64; the model takes float32"),
        (lambda x: x[:, :, :2], "has shape [1, 2, 2]; the model takes x: float32 [batch, 2, 3]"),
        (lambda x: x[..., 0, 0], "has shape"),
    ],
    ids=["nan in the last sample", "type", "static dimension", "rank"],
)
def test_what_does_not_fit_is_found_before_any_run_and_named(wrong, says, kind, tmp_path):
    with pytest.raises(UsageError, match=re.escape(says)):
        load_feeds(layout(kind, tmp_path, wrong(array(4))), X)


@pytest.mark.parametrize("kind", ["npz", "npy", "script"])
def test_no_samples_is_an_error(kind, tmp_path):
    with pytest.raises(UsageError, match="has no samples"):
        load_feeds(layout(kind, tmp_path, array(0)), X)


def test_an_additive_mask_may_hold_minus_infinity(tmp_path):
    x = array(2)
    x[1, 0, 2] = -np.inf
    first, second = load_feeds(save_npz(tmp_path / "d.npz", x=x), X)
    assert np.array_equal(np.concatenate([first["x"], second["x"]]), x)


@pytest.mark.parametrize("name", ["d.npz", "compressed.npz", "d.npy"])
def test_any_damage_is_a_usage_error_or_gives_samples(name, tmp_path):
    """One byte after the other is changed, and the file cut off in front of it."""
    save = {"d.npz": np.savez, "compressed.npz": np.savez_compressed, "d.npy": np.save}[name]
    save(tmp_path / name, **{"arr" if name == "d.npy" else "x": array(2)})
    whole, refused = (tmp_path / name).read_bytes(), 0
    for position in range(len(whole)):
        for damaged in (whole[:position], whole[:position] + bytes([whole[position] ^ 4]) + whole[position + 1 :]):
            (tmp_path / name).write_bytes(damaged)
            try:
                assert len([sample["x"] for sample in load_feeds(tmp_path / name, X)]) == 2
            except UsageError:
                refused += 1
    assert len(whole) < refused < 2 * len(whole)


@pytest.mark.parametrize("kind", ["npz", "npy"])
def test_pickled_objects_are_refused_and_never_loaded(kind, tmp_path):
    ran = tmp_path / "ran"

    class Bomb:
        def __reduce__(self):
            return open, (str(ran), "w")

    path = tmp_path / f"d.{kind}"
    objects = np.array([Bomb()], dtype=object)
    if kind == "npz":
        np.savez(path, x=objects)
    else:
        np.save(path, objects, allow_pickle=True)
    with pytest.raises(UsageError, match="holds pickled Python objects, which are never loaded"):
        load_feeds(path, X)
    assert not ran.exists()


@pytest.mark.parametrize("kind", ["npz", "npy"])
def test_a_truncated_file_is_refused(kind, tmp_path):
    path = layout(kind, tmp_path, array())
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(UsageError, match=r"not a readable|damaged"):
        load_feeds(path, X)


def test_a_file_of_no_known_kind_lists_what_is_legal(tmp_path):
    path = tmp_path / "d.csv"
    path.write_text("1,2")
    with pytest.raises(UsageError, match=r"not of a known kind; legal: .*\.npz file.*FILE\.py.*test_data_set"):
        load_feeds(path, X)


def test_a_path_that_does_not_exist_says_so(tmp_path):
    with pytest.raises(UsageError, match="no such file or folder"):
        load_feeds(tmp_path / "absent.npz", X)


def test_a_fixed_batch_takes_that_many_rows_and_a_last_partial_batch_repeats_its_last_row(tmp_path):
    fixed = (InputSpec("x", F32, (4, 2, 3)),)
    x = array(6)
    for path in (save_npz(tmp_path / "d.npz", x=x), save_npy(tmp_path / "d.npy", x)):
        first, second = (sample["x"] for sample in load_feeds(path, fixed))
        assert np.array_equal(first, x[:4])
        assert np.array_equal(second, x[[4, 5, 5, 5]])


def test_only_as_many_samples_as_asked_for_are_read(tmp_path):
    x = array(5)
    x[4] = np.nan
    feeds = load_feeds(save_npz(tmp_path / "d.npz", x=x), X, limit=4)
    assert len(list(feeds)) == len(feeds) == feeds.description.samples == 4


def test_a_folder_of_something_else_points_to_scripts(tmp_path):
    (tmp_path / "film.mp4").write_bytes(b"")
    with pytest.raises(UsageError, match="holds no data of a known kind") as caught:
        load_feeds(tmp_path, X)
    assert "a Python script reads anything else" in caught.value.hint
