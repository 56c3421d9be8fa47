"""A model with a plugin from quantize to the manifest, with a local function that stands in for it."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from support.command import qdqtool
from support.plugin_models import SWIRL, swirl_model

from qdqtool.models.plugins import KEY

TYPED = f"{SWIRL}=same-as-input-0"


def save(folder: Path, model: onnx.ModelProto) -> Path:
    onnx.save(model, folder / "m.onnx")
    np.savez(folder / "d.npz", x=np.random.default_rng(0).normal(size=(8, 3, 8, 8)).astype(np.float32))
    return folder / "m.onnx"


def quantized(folder: Path, *words: str) -> onnx.ModelProto:
    done = qdqtool("quantize", folder / "m.onnx", "--calib-data", folder / "d.npz", "-o", folder / "q.onnx", *words)
    assert done.code == 0, done.err
    return onnx.load(folder / "q.onnx")


def found(path: Path, *words: str) -> dict:
    """The findings for TensorRT for RTX, with its parser: messages by code; the state of the parser as ``parser``."""
    done = qdqtool("validate", path, "--target", "tensorrt-rtx", "--isolated", "--output-format", "json", *words)
    (target,) = json.loads(done.out)["models"][0]["targets"]
    codes = {each["code"] for each in target["findings"]}
    said = {code: [each["message"] for each in target["findings"] if each["code"] == code] for code in codes}
    return {code: "; ".join(messages) for code, messages in said.items()} | {"parser": target["parser"]}


def test_layers_around_a_plugin_are_quantized_and_its_stand_in_stays(tmp_path: Path):
    save(tmp_path, swirl_model("Swirl", "Swirl", inner=True))
    # Without the declaration, the function is inlined, and nothing is left for the plugin to replace.
    assert {node.op_type for node in quantized(tmp_path).graph.node} & {"Swirl"} == set()
    model = quantized(tmp_path, "--plugin-ops", SWIRL)
    made = {node.output[0]: node for node in model.graph.node}
    swirls = [node for node in model.graph.node if node.op_type == "Swirl"]
    convs = [node for node in model.graph.node if node.op_type == "Conv"]
    assert (len(swirls), len(convs)) == (2, 2)
    assert all(made[each].op_type == "DequantizeLinear" for conv in convs for each in conv.input[:2])
    assert not [node for node in model.functions[0].node if "Linear" in node.op_type]
    # It may not take half precision.
    assert made[swirls[0].input[0]].op_type == "Cast"
    assert {each.key: each.value for each in model.metadata_props}[KEY] == SWIRL


def test_later_commands_read_the_note(tmp_path: Path):
    save(tmp_path, swirl_model())
    quantized(tmp_path, "--plugin-ops", SWIRL)
    assert "plugins: acme::Swirl" in qdqtool("validate", tmp_path / "q.onnx").out
    check = qdqtool(
        "check", tmp_path / "q.onnx", "--baseline", tmp_path / "m.onnx", "--data", tmp_path / "d.npz",
        "--plugin-ops", "acme::Other", "--min-sqnr", "10", "--output-format", "json",
    )  # fmt: skip
    warnings = json.loads(check.out)["warnings"]
    assert any(each.startswith("acme::Swirl is a plugin in TensorRT: a stand-in ran here") for each in warnings)
    assert "acme::Other is declared as a plugin, but no node has this operator" in warnings
    # The good one: a model without plugins hears nothing of them.
    plain = qdqtool("check", tmp_path / "m.onnx", "--output-format", "json")
    assert "plugin" not in plain.out


@pytest.mark.builder
def test_the_parser_looks_behind_a_plugin_whose_types_are_known(tmp_path: Path):
    pytest.importorskip("tensorrt_rtx")
    model = swirl_model(stand_in=False)
    model.graph.node.append(helper.make_node("SoftmaxCrossEntropyLoss", ["y", "n"], ["loss"], name="behind"))
    model.graph.input.append(helper.make_tensor_value_info("n", onnx.TensorProto.INT64, [1, 8, 8]))
    model.graph.output.append(helper.make_tensor_value_info("loss", onnx.TensorProto.FLOAT, []))
    path = save(tmp_path, model)
    assert "'Swirl'" not in found(path, "--plugin-ops", TYPED)["QE701"]
    assert found(path, "--plugin-ops", TYPED)["parser"] == "asked"
    stopped = found(path, "--plugin-ops", SWIRL)
    assert (stopped["parser"], "QT419" in stopped) == ("stopped", True)


@pytest.mark.builder
def test_only_the_declared_operator_is_no_fault(tmp_path: Path):
    pytest.importorskip("tensorrt_rtx")
    path = save(tmp_path, swirl_model(stand_in=False))
    assert "no plugin with this name" in found(path)["QE701"]
    assert found(path, "--plugin-ops", TYPED) == {"parser": "asked"}
    assert "operator acme::Swirl is neither" in found(path, "--plugin-ops", "acme::Swrl=same-as-input-0")["QT419"]


def test_a_settings_file_declares_operators_for_validate(tmp_path: Path):
    path = save(tmp_path, swirl_model(stand_in=False))
    (tmp_path / "qdqtool.toml").write_text(f'plugin-ops = ["{SWIRL}"]\n')
    assert "plugins: acme::Swirl" in qdqtool("validate", path.name, cwd=tmp_path).out
    assert f'plugin-ops = ["{SWIRL}"]' in qdqtool("validate", "--show-settings", cwd=tmp_path).out
