"""``qdqtool check`` as a user meets it: exit codes, JSON alone on stdout, one line for each mistake."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from support.command import qdqtool
from support.qdq import constant, pair_model
from support.small import make_model

HOSTILE = "evil\x1b[31m[/bold]\nname"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """``good.onnx``, ``bad.onnx`` (DQ scale changed by hand), ``float.onnx`` and ``data.npz``."""
    good = pair_model(TensorProto.INT8).proto
    onnx.save(good, tmp_path / "good.onnx")
    good.graph.initializer.append(constant("other", 0.11))
    good.graph.node[1].input[1] = "other"
    good.graph.node[1].name = HOSTILE
    onnx.save(good, tmp_path / "bad.onnx")
    node = helper.make_node("Identity", ["x"], ["y"])
    onnx.save(make_model([node], {"x": ("n",)}, {"y": ("n",)}, {}), tmp_path / "float.onnx")
    np.savez(tmp_path / "data.npz", x=np.linspace(-1, 1, 32, dtype=np.float32).reshape(32))
    return tmp_path


def test_json_goes_to_stdout_alone_with_the_documented_keys(folder: Path) -> None:
    done = qdqtool(
        "check", "good.onnx", "--baseline", "float.onnx", "--data", "data.npz", "--output-format", "json", cwd=folder
    )
    assert (done.code, done.err) == (0, "")
    report = json.loads(done.out)
    assert report["schema_version"] == 1
    assert report["passed"] is True
    assert report["reference"]["runtime"] == "onnxruntime"
    assert report["reference"]["options"]["graph_optimization_level"] == "ORT_DISABLE_ALL"
    assert set(report["outputs"][0]) >= {"name", "sqnr_db", "cosine", "max_abs", "max_steps", "exact"}
    assert report["boundaries"][0]["tensor"] == "x"
    assert report["data"]["samples"] == 32
    assert [gate["name"] for gate in report["gates"]] == ["own-core", "finite", "pairs"]


def test_random_inputs_and_their_seed_are_said(folder: Path) -> None:
    done = qdqtool("check", "good.onnx", "--seed", "7", "--input-shapes", "x:9", cwd=folder)
    assert done.code == 0
    assert "random inputs, seed 7" in done.out
    assert "PASSED" in done.out


def test_a_changed_dq_scale_fails_and_hostile_names_are_escaped(folder: Path) -> None:
    done = qdqtool("check", "bad.onnx", "--baseline", "float.onnx", "--data", "data.npz", cwd=folder)
    assert done.code == 1
    assert "FAILED" in done.out
    assert "\\x1b[31m[/bold]\\nname" in done.out
    assert "\x1b" not in done.out


def test_a_missed_gate_ends_with_code_1_and_says_by_how_much(folder: Path) -> None:
    common = ("check", "good.onnx", "--baseline", "float.onnx", "--data", "data.npz")
    assert qdqtool(*common, "--min-sqnr", "10", cwd=folder).code == 0
    done = qdqtool(*common, "--min-sqnr", "90", cwd=folder)
    assert done.code == 1
    assert "min-sqnr is 90 dB, found" in done.out


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("missing.onnx",), 3, "no such file"),
        (("good.onnx", "--min-cosine", "0.9"), 2, "compare with a baseline"),
        (("good.onnx", "--data", "none.npz"), 2, "no such file"),
        (("good.onnx", "--data", "float.onnx"), 2, "of no known kind"),
        (("good.onnx", "--input-shapes", "y:3"), 2, "no input"),
        (("good.onnx", "--samples", "0"), 2, "--samples"),
    ],
)
def test_mistakes_give_one_line_and_the_right_code(
    folder: Path, words: tuple[str, ...], code: int, message: str
) -> None:
    done = qdqtool("check", *words, cwd=folder)
    assert done.code == code
    assert message in done.err
    assert done.out == ""


def test_what_onnxruntime_cannot_run_ends_with_code_4_and_names_the_node(tmp_path: Path) -> None:
    model = pair_model(TensorProto.FLOAT4E2M1).proto
    model.opset_import[0].version, model.ir_version = 23, 11
    onnx.save(model, tmp_path / "fp4.onnx")
    done = qdqtool("check", "fp4.onnx", cwd=tmp_path)
    assert done.code == 4
    assert "no kernel for QuantizeLinear" in done.err
    assert "'quant'" in done.err
    assert len(done.err.strip().splitlines()) == 2
