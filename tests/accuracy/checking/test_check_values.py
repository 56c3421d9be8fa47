"""From a model whose input decides a branch to a quantized one without it, and its check against that model."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import parser
from support.command import qdqtool

from qdqtool.errors import UsageError
from qdqtool.jobs.check import check_model
from qdqtool.samples.request import DataRequest

TWO_RATES = """
<ir_version: 8, opset_import: ["": 17]>
g (float[1,3,8,8] x, int64 sr) => (float[1,4,6,6] y) <int64 wide = {16000}> {
    is_wide = Equal (sr, wide)
    y = If (is_wide) <
        then_branch = then_graph () => (float[1,4,6,6] t) { t = Conv (x, w16) },
        else_branch = else_graph () => (float[1,4,6,6] e) { e = Conv (x, w8) }
    >
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of two rates, data of either rate, and the model quantized for the higher one."""
    folder, rng = tmp_path_factory.mktemp("rates"), np.random.default_rng(0)
    model = parser.parse_model(TWO_RATES)
    for name in ("w16", "w8"):
        weight = rng.normal(size=(4, 3, 3, 3)).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(weight, name))
    onnx.save(model, folder / "float.onnx")
    x = rng.normal(size=(4, 3, 8, 8)).astype(np.float32)
    np.savez(folder / "data.npz", x=x, sr=np.full(4, 16000))
    np.savez(folder / "other.npz", x=x, sr=np.full(4, 8000))
    words = ["--calib-data", "data.npz", "--input-values", "sr:16000", "-o", "quantized.onnx"]
    done = qdqtool("quantize", "float.onnx", *words, cwd=folder)
    assert done.code == 0, done.err
    return folder


def test_the_quantized_model_has_the_taken_branch_and_not_the_input(folder: Path) -> None:
    model = onnx.load(folder / "quantized.onnx")
    assert [value.name for value in model.graph.input] == ["x"]
    assert sum(node.op_type == "Conv" for node in model.graph.node) == 1
    assert not any(node.op_type == "If" for node in model.graph.node)
    assert {each.key: each.value for each in model.metadata_props}["qdqtool.input_values"] == '{"sr":16000}'


@pytest.mark.parametrize("values", [{}, {"sr": (16000,)}])
def test_its_baseline_runs_with_the_same_value(folder: Path, values) -> None:
    request = DataRequest(path=folder / "data.npz", input_values=values)
    report = check_model(folder / "quantized.onnx", baseline=folder / "float.onnx", data=request)
    assert report.passed, report.failures
    assert all(output.sqnr_db is not None and output.sqnr_db > 30 for output in report.outputs)
    # Random inputs of the right type and shape serve as well: the baseline takes none for the constant.
    assert check_model(folder / "quantized.onnx", baseline=folder / "float.onnx").data.source == "random"


def test_where_the_note_is_lost_the_value_can_be_given(folder: Path) -> None:
    model = onnx.load(folder / "quantized.onnx")
    del model.metadata_props[:]
    onnx.save(model, folder / "without_note.onnx")
    files = {"model": folder / "without_note.onnx", "baseline": folder / "float.onnx"}
    with pytest.raises(UsageError, match="different inputs") as refused:
        check_model(**files, data=DataRequest(path=folder / "data.npz"))
    assert refused.value.hint is not None
    assert "--input-values gives the value of 'sr'" in refused.value.hint
    report = check_model(**files, data=DataRequest(path=folder / "data.npz", input_values={"sr": (16000,)}))
    assert report.passed, report.failures
    with pytest.raises(UsageError, match="as a constant of 16000"):
        check_model(**files, data=DataRequest(path=folder / "other.npz", input_values={"sr": (16000,)}))


def test_a_model_quantized_for_another_value_is_not_that_baseline(folder: Path) -> None:
    words = ["--calib-data", "other.npz", "--input-values", "sr:8000", "-o", "low.onnx"]
    assert qdqtool("quantize", "float.onnx", *words, cwd=folder).code == 0
    model = onnx.load(folder / "low.onnx")
    (note,) = (each for each in model.metadata_props if each.key == "qdqtool.input_values")
    note.value = '{"sr":16000}'
    onnx.save(model, folder / "lying.onnx")
    request = DataRequest(path=folder / "data.npz")
    assert not check_model(folder / "lying.onnx", baseline=folder / "float.onnx", data=request).passed
    request = DataRequest(path=folder / "other.npz")
    assert check_model(folder / "low.onnx", baseline=folder / "float.onnx", data=request).passed


@pytest.mark.parametrize(
    ("data", "values", "message"),
    [
        ("other.npz", {}, "sample 0: input 'sr' is 8000, and the model has it as a constant of 16000"),
        ("data.npz", {"sr": (8000,)}, "gives input 'sr' [8000]; the model has it as a constant of 16000"),
        ("data.npz", {"rate": (1,)}, "names 'rate', which is no input; the inputs are x, sr"),
    ],
)
def test_another_value_or_name_is_refused(folder: Path, data: str, values, message: str) -> None:
    request = DataRequest(path=folder / data, input_values=values)
    with pytest.raises(UsageError) as error:
        check_model(folder / "quantized.onnx", baseline=folder / "float.onnx", data=request)
    assert message in error.value.message


def test_a_float_model_is_checked_with_the_value(folder: Path) -> None:
    request = DataRequest(path=folder / "data.npz", input_values={"sr": (16000,)})
    report = check_model(folder / "float.onnx", data=request)
    assert report.passed
    with pytest.raises(UsageError, match="input 'sr' is 8000"):
        check_model(folder / "float.onnx", data=DataRequest(path=folder / "other.npz", input_values={"sr": (16000,)}))


def test_a_baseline_of_another_size_is_refused_with_both_shapes(folder: Path, tmp_path: Path) -> None:
    larger = onnx.load(folder / "float.onnx")
    larger.graph.input[0].type.tensor_type.shape.dim[3].dim_value = 16
    onnx.save(larger, tmp_path / "larger.onnx")
    words = r"x: float32 \[1, 3, 8, 8\].* against x: float32 \[1, 3, 8, 16\]"
    with pytest.raises(UsageError, match=words):
        check_model(folder / "float.onnx", baseline=tmp_path / "larger.onnx")


def test_ranges_of_one_value_do_not_serve_another(folder: Path) -> None:
    words = ["--calib-data", "data.npz", "--input-values", "sr:16000"]
    assert qdqtool("calibrate", "float.onnx", *words, "-o", "ranges.json", cwd=folder).code == 0
    words = ["--calibration-cache", "ranges.json", "-o", "again.onnx", "--input-values"]
    assert qdqtool("quantize", "float.onnx", *words, "sr:16000", cwd=folder).code == 0
    done = qdqtool("quantize", "float.onnx", *words, "sr:8000", cwd=folder)
    assert done.code == 2
    assert "with other --input-shapes or --input-values" in done.err


def test_an_engine_is_built_for_the_value(folder: Path) -> None:
    pytest.importorskip("tensorrt_rtx")
    words = ["--input-values", "sr:16000", "--backend", "tensorrt-rtx", "-o", "engine"]
    done = qdqtool("build", "float.onnx", *words, cwd=folder)
    assert done.code == 0, done.err
    assert "specialized for sr = 16000: 4 nodes became 1" in done.out
    manifest = json.loads((folder / "engine.manifest.json").read_text())
    assert manifest["specialized"]["input_values"] == {"sr": [16000]}


def test_weights_inside_a_branch_are_matched_when_it_was_folded(folder: Path) -> None:
    """Both sides are specialized alike: the official model of silero has its weights in the branches."""
    model = onnx.load(folder / "float.onnx")
    stored = {tensor.name: tensor for tensor in model.graph.initializer}
    branches = [attribute.g for node in model.graph.node for attribute in node.attribute if attribute.HasField("g")]
    for branch, name in zip(branches, ("w16", "w8"), strict=True):
        branch.initializer.append(stored[name])
        model.graph.initializer.remove(stored[name])
    onnx.save(model, folder / "inside.onnx")
    words = ["--calib-data", "data.npz", "--input-values", "sr:16000", "-o", "folded.onnx"]
    assert qdqtool("quantize", "inside.onnx", *words, cwd=folder).code == 0

    words = ("--baseline", "inside.onnx", "--data", "data.npz", "--max-weight-steps", "0.5")
    done = qdqtool("check", "folded.onnx", *words, cwd=folder)
    assert done.code == 0, done.out
    assert "SKIPPED" not in done.out
    told = qdqtool("diff", "inside.onnx", "folded.onnx", "--output-format", "json", cwd=folder)
    assert json.loads(told.out)["unmatched"] <= 1
