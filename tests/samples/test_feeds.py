"""Data files are checked before anything runs, every iteration gives the same samples, and equal ones are counted."""

import io
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from support.command import qdqtool
from support.data_files import save_npz
from support.feeds import numbered
from support.small import conv_model

from qdqtool.errors import UsageError
from qdqtool.samples.feeds import Survey, load_feeds
from qdqtool.samples.signature import InputSpec

F32 = np.dtype(np.float32)

DYNAMIC = (InputSpec("x", F32, ("N", 8)),)


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


@pytest.mark.parametrize("save_with", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("order", ["C", "F"])
def test_compressed_and_fortran_ordered_arrays_read_the_same(tmp_path: Path, save_with: object, order: str) -> None:
    x = np.random.default_rng(0).normal(size=(5, 8)).astype(np.float32)
    save_with(tmp_path / "d.npz", x=np.asarray(x, order=order))
    assert np.concatenate([sample["x"] for sample in load_feeds(tmp_path / "d.npz", DYNAMIC)]).tolist() == x.tolist()


# --- refusing ---


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_values_that_are_not_finite_are_refused_with_their_place_in_any_sample(tmp_path: Path, bad: float) -> None:
    x = np.zeros((3, 8), np.float32)
    x[2, 5] = bad
    with pytest.raises(UsageError, match=rf"sample 2: input 'x' is {bad} at \[0, 5\]"):
        load_feeds(save_npz(tmp_path / "d.npz", x=x), DYNAMIC)


def test_a_header_that_promises_more_than_there_is_is_refused(tmp_path: Path) -> None:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": (10**12, 8)})
    with zipfile.ZipFile(tmp_path / "lie.npz", "w") as archive:
        archive.writestr("x.npy", header.getvalue() + bytes(64))
    with pytest.raises(UsageError, match="'x' is damaged: 64 bytes of data"):
        load_feeds(tmp_path / "lie.npz", DYNAMIC)


RNG = np.random.default_rng(0)
IMAGE = RNG.normal(size=(1, 3, 8, 8)).astype(np.float32)


def survey(*samples: dict[str, np.ndarray]) -> Survey:
    found = Survey()
    for sample in samples:
        found.add(sample)
    return found


def test_equal_samples_count_once():
    other = {"x": IMAGE + 1}
    found = survey({"x": IMAGE}, other, {"x": IMAGE.copy()}, {"x": IMAGE[0]}, other)
    assert (found.samples, found.repeated, found.constant) == (5, 2, 0)
    found.refuse_constant(Path("d"))


@pytest.mark.parametrize("value", [0, 7, -np.inf])
def test_a_sample_of_one_value_is_constant(value: float):
    found = survey({"x": IMAGE}, {"x": np.full_like(IMAGE, value)})
    with pytest.raises(UsageError, match=f"d: 1 of 2 samples hold a single value: sample 1 is {float(value)} thr"):
        found.refuse_constant(Path("d"))


def test_inputs_that_are_usually_constant_beside_others_are_no_reason():
    """A first state of a recurrent network, a mask of a sentence without padding, a rate."""
    extra = {"state": np.zeros((2, 1, 4), np.float32), "mask": np.ones((1, 8), np.int64), "rate": np.int64(16000)}
    survey({"x": IMAGE, **extra}).refuse_constant(Path("d"))
    with pytest.raises(UsageError, match="d: 1 of 1 samples hold a single value: sample 0 is "):
        survey(extra).refuse_constant(Path("d"))
    survey({"rate": np.int64(16000), "one": np.zeros((1, 1), np.float32)}).refuse_constant(Path("d"))
    survey({"x": np.zeros((0, 4), np.float32)}).refuse_constant(Path("d"))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    onnx.save(conv_model(), tmp_path / "m.onnx")
    np.savez(tmp_path / "zeros.npz", x=np.zeros((4, 3, 8, 8), np.float32))
    np.savez(tmp_path / "same.npz", x=np.repeat(IMAGE, 128, axis=0))
    np.savez(tmp_path / "good.npz", x=RNG.normal(size=(4, 3, 8, 8)).astype(np.float32))
    return tmp_path / "m.onnx"


COMMANDS = (
    ("calibrate", "-o", "r.json"),
    ("quantize", "-o", "q.onnx"),
    ("check",),
    ("normalize", "-o", "n.onnx"),
    ("validate", "--fix", "--diff"),
)


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_zeros_are_refused_unless_allowed(model: Path, words: tuple[str, ...]):
    command, *rest = words
    folder = model.parent
    done = qdqtool(command, "m.onnx", *rest, "--data", "zeros.npz", cwd=folder)
    assert done.code == 2
    assert "4 of 4 samples hold a single value" in done.err
    assert "--allow-constant-data" in done.err
    allowed = qdqtool(command, "m.onnx", *rest, "--data", "zeros.npz", "--allow-constant-data", cwd=folder)
    assert "hold a single value" not in allowed.err


@pytest.mark.parametrize("option", ["--data", "--calib-data"])
@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_both_names_of_the_option_are_taken(model: Path, words: tuple[str, ...], option: str):
    command, *rest = words
    done = qdqtool(command, "m.onnx", *rest, option, "good.npz", cwd=model.parent)
    assert done.code in {0, 1}, done.err


@pytest.mark.slow(reason="quantizes and checks")
def test_copies_of_one_sample_are_reported(model: Path):
    for words in (("quantize", "-o", "q.onnx"), ("check",), ("calibrate", "-o", "r.json")):
        done = qdqtool(words[0], "m.onnx", *words[1:], "--data", "same.npz", cwd=model.parent)
        assert "REPEATED 127 of 128 samples equal an earlier sample: 1 is different" in done.out


@pytest.mark.parametrize(
    ("array", "hint"),
    [
        (np.zeros((1, 3, 8, 8), np.uint8), "for images, convert the range too: most networks take 0 to 1"),
        (np.ones((1, 3, 8, 8)), "convert it first: array.astype('float32')"),
        (np.ones((1, 8, 8, 3), np.float32), "the channels are last in the data: array.transpose(0, 3, 1, 2)"),
        (np.ones((1, 3, 8, 9), np.float32), None),
    ],
)
def test_what_is_nearly_right_gets_the_way_on(array, hint, tmp_path):
    np.savez(tmp_path / "data.npz", x=array)
    with pytest.raises(UsageError) as refused:
        load_feeds(tmp_path / "data.npz", (InputSpec("x", F32, (1, 3, 8, 8)),))
    assert refused.value.hint is None if hint is None else hint in refused.value.hint
