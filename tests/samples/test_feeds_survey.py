"""What samples are worth: repeated ones are counted, constant ones refused."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from support.command import qdqtool
from support.small import conv_model

from qdqtool.errors import UsageError
from qdqtool.samples.feeds import Survey

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


def test_copies_of_one_sample_are_reported(model: Path):
    for words in (("quantize", "-o", "q.onnx"), ("check",), ("calibrate", "-o", "r.json")):
        done = qdqtool(words[0], "m.onnx", *words[1:], "--data", "same.npz", cwd=model.parent)
        assert "REPEATED 127 of 128 samples equal an earlier one: the data has 1" in done.out
