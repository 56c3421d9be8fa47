"""Jobs that read or change a model as it is take models in memory."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from support.paths import ROOT
from support.small import conv_model

import qdqtool
from qdqtool.cli import command
from qdqtool.errors import UsageError

ROWS = np.random.default_rng(5).normal(size=(4, 3, 8, 8)).astype(np.float32)
DIGITS = ROOT / "sample_models/digits_cnn"


def printed(*words: object) -> dict[str, object]:
    result = CliRunner().invoke(command, [*map(str, words), "--output-format", "json"])
    found: dict[str, object] = json.loads(result.stdout)
    return found


def test_reports_are_what_the_command_line_prints(tmp_path: Path):
    onnx.save(conv_model(), tmp_path / "m.onnx")
    np.savez(tmp_path / "d.npz", x=ROWS)
    model, data, output = tmp_path / "m.onnx", tmp_path / "d.npz", tmp_path / "q.onnx"
    assert qdqtool.quantize_model(model, data, output).to_dict() == printed(
        "quantize", model, "--data", data, "-o", output
    )
    checked = qdqtool.check_model(output, baseline=model, data=data, min_sqnr=99)
    assert not checked.passed
    assert checked.to_dict() == printed("check", output, "--baseline", model, "--data", data, "--min-sqnr", 99)
    assert "failed" in checked._repr_html_()
    assert qdqtool.validate_model(output).to_dict() == printed("validate", output, "--isolated")
    assert qdqtool.inspect_model(output).to_dict() == printed("inspect", output)
    assert qdqtool.diff_models(model, output).to_dict() == printed("diff", model, output)


def test_a_plan_is_put_into_a_model_in_memory(tmp_path: Path):
    wanted = tmp_path / "q.onnx"
    qdqtool.insert_plan(DIGITS / "model.onnx", DIGITS / "plan.toml", wanted)
    proto = onnx.load(DIGITS / "model.onnx")
    report = qdqtool.insert_plan(proto, DIGITS / "plan.toml")
    assert report.output_model is not None
    assert report.output == ""
    assert report.output_model.proto.SerializeToString(deterministic=True) == wanted.read_bytes()
    by_words = qdqtool.insert_plan(proto, DIGITS / "plan.toml", weights="qdq").output_model
    assert by_words is not None
    assert len(by_words.proto.graph.node) > len(report.output_model.proto.graph.node)
    with pytest.raises(UsageError, match="input_shapes can only be used with verify"):
        qdqtool.insert_plan(proto, DIGITS / "plan.toml", input_shapes={"image": (1, 1, 8, 8)})


def test_a_verdict_needs_every_model_read_and_no_error():
    quantized = qdqtool.quantize_model(conv_model(), ROWS).output_model
    assert quantized is not None
    assert qdqtool.validate_model(quantized.proto).passed
    broken = onnx.ModelProto.FromString(quantized.proto.SerializeToString())
    scale = next(node for node in broken.graph.node if node.op_type == "DequantizeLinear").input[1]
    for tensor in broken.graph.initializer:
        if tensor.name == scale:
            dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
            tensor.CopyFrom(onnx.numpy_helper.from_array(np.array(-1, dtype), scale))
    report = qdqtool.validate_model(broken)
    assert not report.passed
    assert "failed" in report._repr_html_()
    assert not qdqtool.check_model(broken, baseline=conv_model(), data=ROWS, min_sqnr=20).passed


def test_layers_are_named_where_they_are_asked_for():
    quantized = qdqtool.quantize_model(conv_model(), ROWS).output_model
    plain = qdqtool.check_model(quantized, baseline=conv_model(), data=ROWS)
    named = qdqtool.check_model(quantized, baseline=conv_model(), data=ROWS, blame=True)
    assert plain.to_dict()["blame"] is None
    blame = named.to_dict()["blame"]
    assert [each["node"] for each in blame["layers"]] == ["conv1"]
    assert blame["left_out"] == []


def test_random_data_has_the_seed_that_is_given():
    def shown(**keywords: int) -> object:
        return qdqtool.check_model(conv_model(), **keywords).to_dict()["data"]

    assert shown(seed=4, samples=2)["seed"] == 4
    assert shown(seed=4, samples=2)["samples"] == 2


def test_a_notebook_shows_each_finding_with_its_target():
    quantized = qdqtool.quantize_model(conv_model(), ROWS).output_model
    assert quantized is not None
    report = qdqtool.validate_model(quantized, ["tensorrt", "onnx"])
    assert report.notebook_rows()["verdicts"] == {"<memory>, tensorrt": "pass", "<memory>, onnx": "pass"}
    for tensor in quantized.proto.graph.initializer:
        if tensor.name.endswith("scale"):
            tensor.CopyFrom(onnx.numpy_helper.from_array(np.array(0, np.float32), tensor.name))
    broken = qdqtool.validate_model(quantized)
    rows = broken.notebook_rows()
    assert rows["verdicts"] == {"<memory>, tensorrt": "fail"}
    assert len(rows["findings"]) == len(broken.findings) > 0
    assert broken.findings[0].code in broken._repr_html_()


def test_the_linter_loads_without_what_runs_models():
    code = "import sys, qdqtool; qdqtool.validate_model; print('qdqtool.jobs.quantize' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
