"""``qdqtool calibrate`` and ``qdqtool quantize`` as users run them: exit codes, messages, reports, files."""

import json
import textwrap
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from support.command import Done, qdqtool_process
from support.command import qdqtool as run
from support.small import conv_model, make_model


@pytest.fixture
def qdqtool(folder: Path) -> Callable[..., Done]:
    """The command in this process, in the folder."""
    return partial(run, cwd=folder)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    onnx.save(conv_model(), tmp_path / "m.onnx")
    np.savez(tmp_path / "d.npz", x=np.random.default_rng(2).normal(size=(4, 3, 8, 8)).astype(np.float32))
    return tmp_path


def test_without_data_nothing_is_quantized_and_the_options_are_named(folder, qdqtool):
    before = sorted(folder.iterdir())
    done = qdqtool("quantize", "m.onnx", "-o", "q.onnx")
    assert done.code == 2
    assert "no calibration data" in done.err
    assert all(option in done.err for option in ("--calib-data", "--calibration-cache", "--random-calibration"))
    assert qdqtool("calibrate", "m.onnx", "-o", "r.json").code == 2
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize(
    "words",
    [
        ["--calib-data", "d.npz", "--random-calibration"],
        ["--calib-data", "d.npz", "--seed", "1"],
        ["--calib-data", "d.npz", "--force"],
        ["--calibration-cache", "r.json", "--random-calibration"],
        ["--calibration-cache", "r.json", "--calib-data", "d.npz", "--seed", "1"],
        ["--calibration-cache", "r.json", "--samples", "3"],
        ["--calibration-cache", "absent.json"],
        ["--calib-data", "absent.npz"],
        ["--calib-data", "d.npz", "--validation-data", "absent.npz"],
        ["--calib-data", "d.npz", "--target", "tensort"],
        ["--calib-data", "d.npz", "--calibration-method", "maxx"],
        ["--calib-data", "d.npz", "--nodes-to-exclude", "cnv*"],
        ["--calib-data", "d.npz", "--input-shapes", "x=3"],
        ["--calib-data", "d.npz", "--quantize-mode", "int9"],
        ["--calib-data", "d.npz", "--save-plan", "p.toml"],
        ["--calib-data", "d.npz", "--save-ranges", "absent/r.json"],
    ],
)
def test_wrong_usage_is_exit_2_with_one_message_and_no_file(words, folder, qdqtool):
    before = sorted(folder.iterdir())
    done = qdqtool("quantize", "m.onnx", *words, "-o", "q.onnx")
    assert done.code == 2, done.err
    assert done.out == ""
    assert done.err.strip()
    assert sorted(folder.iterdir()) == before


WRONG = {
    "name": (lambda x: {"y": x}, "'y' is no input of the model; its inputs: x"),
    "dtype": (lambda x: {"x": x.astype(np.float64)}, "has type float64; the model takes float32"),
    "rank": (lambda x: {"x": x[0, 0]}, "has shape [8, 8]"),
    "shape": (lambda x: {"x": x[:, :, :7]}, "has shape [1, 3, 7, 8]; the model takes x: float32 [1, 3, 8, 8]"),
    "infinity": (lambda x: {"x": np.where(np.arange(8) == 3, np.inf, x)}, "is inf at [0, 0, 0, 3]"),
    "no samples": (lambda x: {"x": x[:0]}, "has no samples"),
    "pickle": (lambda _: {"x": np.array([{}], dtype=object)}, "holds pickled Python objects"),
}


@pytest.mark.parametrize("fault", WRONG)
def test_wrong_data_is_one_clear_message_and_exit_2_and_leaves_nothing(fault, folder, qdqtool):
    make, message = WRONG[fault]
    arrays = make(np.random.default_rng(2).normal(size=(4, 3, 8, 8)).astype(np.float32))
    if fault == "infinity":
        arrays = {"x": arrays["x"].astype(np.float32)}
    np.savez(folder / "bad.npz", **arrays)
    before = sorted(folder.iterdir())
    done = qdqtool("quantize", "m.onnx", "--calib-data", "bad.npz", "-o", "q.onnx", "--save-ranges", "r")
    assert done.code == 2, done.err
    assert message in done.err
    assert sum(line.startswith("error:") for line in done.err.splitlines()) == 1
    assert sorted(folder.iterdir()) == before


def test_two_steps_give_the_bytes_of_one(folder, qdqtool):
    one = qdqtool("quantize", "m.onnx", "--calib-data", "d.npz", "-o", "one.onnx")
    ranges = qdqtool("calibrate", "m.onnx", "--calib-data", "d.npz", "-o", "r.json")
    two = qdqtool("quantize", "m.onnx", "--calibration-cache", "r.json", "-o", "two.onnx")
    assert (one.code, ranges.code, two.code) == (0, 0, 0)
    assert (folder / "one.onnx").read_bytes() == (folder / "two.onnx").read_bytes()
    assert "validate for tensorrt: pass" in one.out
    assert "ranges of 2 tensors" in ranges.out


def test_data_beside_ranges_prints_the_accuracy_and_what_was_forced(folder, qdqtool):
    qdqtool("calibrate", "m.onnx", "--calib-data", "d.npz", "-o", "r.json")
    words = ("quantize", "m.onnx", "--calibration-cache", "r.json", "-o", "q.onnx")
    assert "accuracy not measured" in qdqtool(*words).out
    done = qdqtool(*words, "--calib-data", "d.npz")
    assert "SQNR against the float model, on 4 calibration samples: the ranges were found on them" in done.out
    assert "FORCED" not in done.out
    refused = qdqtool(*words, "--calib-data", "d.npz", "--samples", "2")
    assert (refused.code, "were found on other data" in refused.err) == (2, True)
    forced = qdqtool(*words, "--calib-data", "d.npz", "--samples", "2", "--force")
    assert "FORCED: the ranges and the accuracy come from different data" in forced.out


def test_the_accuracy_is_that_of_held_back_samples_or_of_validation_data(folder, qdqtool):
    words = ("quantize", "m.onnx", "--calib-data", "d.npz", "-o", "q.onnx")
    assert "SQNR against the float model, on 1 hold-out sample of the calibration data" in qdqtool(*words).out
    np.savez(folder / "v.npz", x=np.random.default_rng(9).normal(size=(3, 3, 8, 8)).astype(np.float32))
    done = qdqtool(*words, "--validation-data", "v.npz")
    assert "SQNR against the float model, on 3 samples of v.npz" in done.out
    found = json.loads(qdqtool(*words, "--output-format", "json").out)["accuracy"]
    assert (found["samples"], found["held_back"], found["validation"], found["reason"]) == (1, True, None, "")
    alone = ("quantize", "m.onnx", "--quantize-mode", "int8-weight-only", "--validation-data", "v.npz", "-o", "q.onnx")
    assert "on 3 samples of v.npz" in qdqtool(*alone).out
    qdqtool("calibrate", "m.onnx", "--calib-data", "d.npz", "-o", "r.json")
    cached = ("quantize", "m.onnx", "--calibration-cache", "r.json", "--validation-data", "v.npz", "-o", "q.onnx")
    assert "on 3 samples of v.npz" in qdqtool(*cached).out


def test_validation_data_is_no_calibration_data(folder, qdqtool):
    done = qdqtool("quantize", "m.onnx", "--validation-data", "d.npz", "-o", "q.onnx")
    assert (done.code, "no calibration data is given; --validation-data only measures" in done.err) == (2, True)
    assert not (folder / "q.onnx").exists()


def test_constant_validation_data_is_refused_unless_allowed(folder, qdqtool):
    np.savez(folder / "zeros.npz", x=np.zeros((3, 3, 8, 8), np.float32))
    words = ("quantize", "m.onnx", "--calib-data", "d.npz", "--validation-data", "zeros.npz", "-o", "q.onnx")
    assert (qdqtool(*words).code, qdqtool(*words, "--allow-constant-data").code) == (2, 0)


def test_the_json_report_has_what_others_rely_on(folder, qdqtool):
    words = ["--calib-data", "d.npz", "--nodes-to-exclude", "conv1", "-o", "q.onnx", "--output-format", "json"]
    done = qdqtool("quantize", "m.onnx", *words)
    report = json.loads(done.out)
    assert report["schema_version"] == 1
    assert report["output"] == "q.onnx"
    assert [pair["tensor"] for pair in report["quantized"]] == ["r", "v"]
    assert report["skipped"][0]["node"] == "conv1"
    assert report["skipped"][0]["reason"]
    assert report["sizes"]["after"] == (folder / "q.onnx").stat().st_size


def test_random_calibration_is_shouted_in_both_formats(folder, qdqtool):
    words = ["quantize", "m.onnx", "--random-calibration", "--seed", "4", "-o"]
    text = qdqtool(*words, "a.onnx")
    data = json.loads(qdqtool(*words, "b.onnx", "--output-format", "json").out)
    assert "RANDOM calibration, seed 4" in text.out
    assert (data["calibration"]["random"], data["calibration"]["seed"]) == (True, 4)
    assert (folder / "a.onnx").read_bytes() == (folder / "b.onnx").read_bytes()


def test_list_matches_needs_neither_data_nor_output(folder, qdqtool):
    done = qdqtool("quantize", "m.onnx", "--list-matches", "--nodes-to-exclude", "conv*")
    assert done.code == 0, done.err
    assert "--nodes-to-exclude 'conv*' matches 2 nodes" in done.out
    assert "0 nodes of m.onnx would be quantized" in done.out


def test_hostile_names_are_escaped(folder, qdqtool):
    hostile = "[/bold]\x1b[31m\n"
    proto = make_model(
        [helper.make_node("MatMul", ["x", hostile], ["y"], name=hostile)],
        {"x": (1, 4)},
        {"y": (1, 4)},
        {hostile: np.zeros((4, 4), np.float32)},
    )
    onnx.save(proto, folder / "h.onnx")
    for words in (["--list-matches"], ["--random-calibration", "-o", "q.onnx"]):
        done = qdqtool("quantize", "h.onnx", *words)
        assert done.code == 0, done.err
        assert "[/bold]\\x1b[31m\\n" in done.out
        assert "\x1b" not in done.out + done.err
    assert "4 of 4 channels hold nothing but zeros" in done.out


def test_blocks_of_nothing_but_zeros_are_called_blocks(folder, qdqtool):
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    onnx.save(make_model(nodes, {"x": (1, 64)}, {"y": (1, 32)}, {"w": np.zeros((64, 32), "f4")}), folder / "z.onnx")
    done = qdqtool("quantize", "z.onnx", "--quantize-mode", "int4", "-o", "q.onnx")
    assert "64 of 64 blocks hold nothing but zeros" in done.out, done.err


def test_a_script_that_fails_is_the_user_s_error_not_ours(folder, qdqtool):
    (folder / "s.py").write_text(
        textwrap.dedent("""
        def load_data():
            raise OSError("the disk is gone")
    """)
    )
    done = qdqtool("quantize", "m.onnx", "--calib-data", "s.py", "-o", "q.onnx")
    assert done.code == 2
    assert "load_data() raised OSError in line 3: the disk is gone" in done.err


def test_a_process_of_its_own_writes_the_same_bytes(folder, qdqtool):
    done = qdqtool_process("quantize", "m.onnx", "--calib-data", "d.npz", "-o", "q.onnx", cwd=folder)
    assert (done.code, done.err) == (0, "")
    assert "wrote q.onnx" in done.out
    qdqtool("quantize", "m.onnx", "--calib-data", "d.npz", "-o", "here.onnx")
    assert (folder / "q.onnx").read_bytes() == (folder / "here.onnx").read_bytes()


@pytest.mark.parametrize(("smallest", "code"), [(1e-4, 1), (0.5, 0)])
def test_an_output_that_becomes_infinite_is_a_failure(folder, qdqtool, smallest: float, code: int):
    """int8 rounds 1e-4 beside 1 to 0, whose logarithm is infinite; the model is there to be looked at."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["t"]), helper.make_node("Log", ["t"], ["y"])]
    constants = {"w": np.full((16, 16), 0.5, np.float32)}
    onnx.save(make_model(nodes, {"x": ("N", 16)}, {"y": ("N", 16)}, constants), folder / "log.onnx")
    np.savez(folder / "log.npz", x=np.outer(np.tile([smallest, 1], 8), np.linspace(0.9, 1, 16)).astype(np.float32))
    options = ("--calibration-method", "max", "-q", "-o", "q.onnx")
    done = qdqtool("quantize", "log.onnx", "--calib-data", "log.npz", *options)
    assert done.code == code, done.err
    assert ("NaN or infinities in y" in done.out) is bool(code)
    assert (folder / "q.onnx").exists()
