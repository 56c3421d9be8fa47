"""``qdqtool sensitivity`` and ``quantize --min-sqnr`` as users run them: reports, hints, exit codes, files."""

import json
import re
import shlex
from collections.abc import Callable
from functools import partial
from pathlib import Path

import onnx
import pytest
from accuracy.layers.test_layer import evil_names, residual, turned_weights
from onnx import TensorProto, helper
from support.command import Done
from support.command import qdqtool as run
from support.layered import chain, dividing, nodes_with_pairs, rows, save

Run = Callable[..., Done]


@pytest.fixture
def qdqtool(tmp_path: Path) -> Run:
    """The command, in a folder with a model of five layers."""
    save(tmp_path, chain(5, uneven=40), rows())
    return partial(run, cwd=tmp_path)


SENSITIVITY = ("sensitivity", "m.onnx", "--calib-data", "d.npz")
QUANTIZE = ("quantize", "m.onnx", "--calib-data", "d.npz")


def report(qdqtool: Run, *words: str) -> dict:
    done = qdqtool(*SENSITIVITY, *words, "--output-format", "json")
    assert (done.code, done.err) == (0, "")
    return json.loads(done.out)


@pytest.mark.parametrize(
    "more",
    [(), ("--quantize-mode", "fp8"), ("--quantize-mode", "int8-weight-only"), ("--target", "onnx"), ("--samples", "4")],
)
def test_the_report_has_every_layer_with_its_outputs(qdqtool, more: tuple[str, ...]):
    found = report(qdqtool, *more)
    assert {each["node"] for each in found["nodes"]} == {f"m{number}" for number in range(5)}
    for each in found["nodes"]:
        assert (each["op_type"], each["graph"], each["nodes"]) == ("MatMul", "", [each["node"]])
        assert [output["name"] for output in each["outputs"]] == ["y"]
        assert each["worst_sqnr_db"] == each["outputs"][0]["sqnr_db"]
        assert 0 < each["outputs"][0]["cosine"] < 1
        assert each["outputs_without"][0]["sqnr_db"] > 0
        assert each["exclude"] == [each["node"]]
    shares = [each["noise_share"] for each in found["nodes"]]
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) == pytest.approx(1, abs=1e-3)
    assert sum(each["cost_share"] for each in found["nodes"]) == pytest.approx(1, abs=1e-3)
    assert found["samples"] == (3 if "--samples" in more else 8)
    # All layers, none, two kinds, and twice each layer, on each sample.
    assert found["runs"] == found["samples"] * (2 * 5 + 5)
    weight_only = "int8-weight-only" in more
    assert (found["activations_only_db"] is None) == weight_only
    assert found["weights_only_db"] > found["outputs"][0]["sqnr_db"] - 3
    assert found["calibration"]["random"] is False


def test_the_text_names_the_layers_in_the_order_of_the_report(qdqtool):
    found = report(qdqtool)
    text = qdqtool(*SENSITIVITY).out
    assert text.splitlines()[0] == "5 layers of m.onnx in int8 for tensorrt, on 8 samples"
    named = re.findall(r"^(m\d) +MatMul +([\d.]+)% +([\d.]+) +([+-][\d.]+) +([\d.]+)%", text, re.MULTILINE)
    assert [name for name, *_ in named] == [each["node"] for each in found["nodes"]]
    for (_, noise, alone, gain, share), each in zip(named, found["nodes"], strict=True):
        assert float(noise) == pytest.approx(each["noise_share"] * 100, abs=0.06)
        assert float(alone) == pytest.approx(each["worst_sqnr_db"], abs=0.06)
        assert float(gain) == pytest.approx(each["gain_db"], abs=0.006)
        assert float(share) == pytest.approx(each["cost_share"] * 100, abs=0.06)
    assert f"worst output with all quantized: y, {found['outputs'][0]['sqnr_db']:.1f} dB" in text
    assert qdqtool(*SENSITIVITY).out == text


@pytest.mark.slow(reason="runs commands that fail, and each advice")
@pytest.mark.parametrize("make", [chain, residual, turned_weights, evil_names])
def test_the_hint_leaves_the_first_layers_in_float(qdqtool, tmp_path: Path, make: Callable[[], onnx.ModelProto]):
    shape = (1, 16, 4, 4) if make is residual else (4, 16)
    save(tmp_path, make(), rows(shape))
    found = report(qdqtool)
    hint = re.search(r"^to leave the first (\d) in float: (.*)$", qdqtool(*SENSITIVITY).out, re.MULTILINE)
    assert hint
    first = found["nodes"][: int(hint[1])]
    assert sum(each["noise_share"] for each in first) >= 0.5 > sum(each["noise_share"] for each in first[:-1])
    words = shlex.split(hint[2])
    assert words[1::2] == [pattern for each in first for pattern in each["exclude"]]
    assert qdqtool(*QUANTIZE, "-o", "all.onnx").code == 0
    assert qdqtool(*QUANTIZE, *words, "-o", "q.onnx").code == 0
    whole, rest = (nodes_with_pairs(onnx.load(tmp_path / name)) for name in ("all.onnx", "q.onnx"))
    left = {re.sub(r"^\w+ -> ", "", label) for each in first for label in each["nodes"]}
    assert rest == whole - left
    assert left <= whole


def test_random_data_is_called_random(qdqtool):
    done = qdqtool("sensitivity", "m.onnx", "--random-calibration", "--seed", "3", "--samples", "4")
    assert done.code == 0
    assert "RANDOM data, seed 3: it says nothing about real inputs" in done.out
    words = ("sensitivity", "m.onnx", "--random-calibration", "--samples", "4", "--output-format", "json")
    assert json.loads(qdqtool(*words).out)["calibration"]["random"] is True
    assert "RANDOM data, seed 0" in qdqtool(*words[:-2], "--quantize-mode", "int8-weight-only").out
    assert "RANDOM" not in qdqtool(*SENSITIVITY).out


def test_a_model_with_one_layer_has_no_hint_for_it(qdqtool, tmp_path: Path):
    save(tmp_path, chain(1), rows())
    text = qdqtool(*SENSITIVITY).out
    assert text.startswith("1 layer of m.onnx")
    assert "to leave" not in text
    assert report(qdqtool)["nodes"][0]["cost_share"] == 1


def test_values_that_are_not_finite_are_told(qdqtool, tmp_path: Path):
    save(tmp_path, *dividing())
    text = qdqtool(*SENSITIVITY).out
    assert "output d has NaN or infinity that the float model does not have" in text
    assert re.search(r"^first +MatMul +100.0% +not finite", text, re.MULTILINE)
    found = report(qdqtool)
    assert [(each["name"], each["finite"]) for each in found["outputs"]] == [("d", False), ("y", True)]


def test_an_output_that_is_always_zero_has_no_part_in_it(qdqtool, tmp_path: Path):
    model = chain(3)
    model.graph.node.append(helper.make_node("Sub", ["y", "y"], ["z"]))
    model.graph.output.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, (4, 16)))
    save(tmp_path, model, rows())
    found = report(qdqtool)
    assert found["weights_only_db"] > 0
    assert {each["name"]: each["sqnr_db"] is None for each in found["outputs"]} == {"y": False, "z": True}


def test_nothing_is_written(qdqtool, tmp_path: Path):
    before = sorted(tmp_path.iterdir())
    qdqtool(*SENSITIVITY)
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("sensitivity", "m.onnx"), "no calibration data is given"),
        (("sensitivity", "m.onnx", "--quantize-mode", "int4"), "no calibration data is given"),
        (("sensitivity", "absent.onnx", "--calib-data", "d.npz"), "absent.onnx"),
        (("sensitivity", "m.onnx", "--calib-data", "absent.npz"), "absent.npz"),
        ((*SENSITIVITY, "--nodes-to-exclude", "nothing"), "matches no node"),
        ((*SENSITIVITY, "--nodes-to-exclude", "*"), "nothing is left to quantize"),
        ((*SENSITIVITY, "--quantize-mode", "int9"), "int9"),
        ((*SENSITIVITY, "--random-calibration"), "cannot be used together"),
        ((*QUANTIZE, "--pareto", "c.json", "-o", "q.onnx"), "--pareto needs --min-sqnr or --max-metric-loss"),
        ((*QUANTIZE, "--min-sqnr", "nan", "-o", "q.onnx"), "--min-sqnr nan is no accuracy"),
        ((*QUANTIZE, "--min-sqnr", "inf", "-o", "q.onnx"), "--min-sqnr inf is no accuracy"),
        ((*QUANTIZE, "--min-sqnr", "much", "-o", "q.onnx"), "much"),
        ((*QUANTIZE, "--min-sqnr", "30", "--pareto", "c.txt", "-o", "q.onnx"), "must end in .json"),
        ((*QUANTIZE, "--min-sqnr", "30", "--pareto", "d.npz", "-o", "q.onnx"), "d.npz"),
        ((*QUANTIZE, "--min-sqnr", "30", "--pareto", "absent/c.json", "-o", "q.onnx"), "absent"),
        (
            ("quantize", "m.onnx", "--quantize-mode", "int8-weight-only", "--min-sqnr", "3", "-o", "q.onnx"),
            "no samples",
        ),
    ],
)
def test_wrong_usage_is_exit_2_with_one_message_and_no_file(qdqtool, tmp_path: Path, words: tuple[str, ...], told: str):
    before = sorted(tmp_path.iterdir())
    done = qdqtool(*words)
    assert done.code in ({2, 3} if "absent.onnx" in words else {2}), done.err
    assert done.out == ""
    assert told in " ".join(done.err.split())
    assert sorted(tmp_path.iterdir()) == before


def test_a_quantized_model_and_one_without_float_outputs_are_refused(qdqtool, tmp_path: Path):
    assert qdqtool(*QUANTIZE, "-o", "q.onnx").code == 0
    (tmp_path / "q.onnx").rename(tmp_path / "m.onnx")
    done = qdqtool(*SENSITIVITY)
    assert (done.code, "is quantized already" in done.err) == (2, True)
    model = chain(3)
    model.graph.node.append(helper.make_node("ArgMax", ["y"], ["class"], axis=-1, keepdims=0))
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("class", TensorProto.INT64, (4,)))
    save(tmp_path, model, rows())
    done = qdqtool(*SENSITIVITY)
    assert (done.code, "no output of the model is a float tensor" in done.err) == (2, True)


def test_a_goal_is_kept_reported_and_its_curve_written(qdqtool, tmp_path: Path):
    low = json.loads(qdqtool(*QUANTIZE, "-o", "all.onnx", "--output-format", "json").out)["accuracy"]["outputs"][0]
    goal = f"{low['sqnr_db'] + 3:.2f}"
    words = (*QUANTIZE, "--min-sqnr", goal, "--pareto", "c.json", "-o", "q.onnx")
    found = json.loads(qdqtool(*words, "--output-format", "json").out)
    assert found["accuracy"]["outputs"][0]["sqnr_db"] >= float(goal)
    assert found["goal"]["min_sqnr_db"] == float(goal)
    assert found["goal"]["worst_without_db"] == low["sqnr_db"]
    points = json.loads((tmp_path / "c.json").read_text())["points"]
    assert found["goal"]["curve"] == points
    text = qdqtool(*words).out
    count = len(found["goal"]["left"])
    assert re.search(rf"{count} of 5 layers unquantized for [\d.]+ dB, [\d.]+% of the cost; with all quantized", text)
    assert "curve in c.json" in text
    for layer in found["goal"]["left"]:
        assert f"MatMul {layer['node']}: " in text


@pytest.mark.slow(reason="a search, and the command that it prints")
def test_a_goal_that_is_missed_is_exit_1_and_its_hint_can_be_pasted(qdqtool, tmp_path: Path):
    before = sorted(tmp_path.iterdir())
    words = (*QUANTIZE, "--save-plan", "p.json", "-o", "q.onnx")
    done = qdqtool(*words, "--min-sqnr", "150", "--pareto", "c.json")
    assert (done.code, done.out) == (1, "")
    assert sorted(tmp_path.iterdir()) == before
    hint = re.search(r"`(--min-sqnr -?\d+)`", done.err)
    assert hint
    assert qdqtool(*words, *hint[1].split()).code == 0
    error = json.loads(qdqtool(*words, "--min-sqnr", "150", "--output-format", "json").out)["error"]
    assert error["exit_code"] == 1
    assert "all keep 150 dB" in error["message"]
