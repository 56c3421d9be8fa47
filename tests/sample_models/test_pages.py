"""The worked examples of the reference pages come out of ``insert`` and ONNX Runtime as the pages print them."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper
from support.paths import ROOT

from qdqtool.jobs.insert import insert_plan
from qdqtool.jobs.validate import validate_model

PAGES = ROOT / "sample_models" / "pages"
EXAMPLES = sorted(path.parent.name for path in PAGES.glob("*/model.onnx"))
WITH_CODES = ["torch_per_tensor", "tripy_quantize_per_channel"]
LOOSE = {"tensorrt_dequantize": 1 / 127, "tripy_dequantize_per_channel": 0.5e-4, "tripy_dequantize_per_tensor": 0.5e-4}


def expected(example: str) -> dict[str, np.ndarray]:
    with np.load(PAGES / example / "expected.npz", allow_pickle=False) as stored:
        return dict(stored)


@pytest.fixture(scope="module", params=EXAMPLES)
def path(request, tmp_path_factory) -> Path:
    folder = PAGES / request.param
    output = tmp_path_factory.mktemp(request.param) / f"{request.param}.onnx"
    insert_plan(folder / "model.onnx", folder / "plan.toml", output)
    return output


@pytest.fixture(scope="module")
def inserted(path) -> tuple[str, onnx.ModelProto]:
    return path.stem, onnx.load(path)


def run(model: onnx.ModelProto, want: dict[str, np.ndarray]) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    return session.run(None, {value.name: want[value.name] for value in model.graph.input})


def codes_of(model: onnx.ModelProto, want: dict[str, np.ndarray]) -> np.ndarray:
    """The quantized values: what DequantizeLinear reads, an initializer or the output of QuantizeLinear."""
    (dequantize,) = [node for node in model.graph.node if node.op_type == "DequantizeLinear"]
    stored = [t for t in model.graph.initializer if t.name == dequantize.input[0]]
    if stored:
        return numpy_helper.to_array(stored[0]).astype(np.int64)
    exposed = onnx.ModelProto()
    exposed.CopyFrom(model)
    # four-bit outputs have no NumPy type in ORT: a Cast to int32 after the DequantizeLinear's input reads them
    exposed.graph.node.append(
        onnx.helper.make_node("Cast", [dequantize.input[0]], ["codes"], to=onnx.TensorProto.INT32)
    )
    exposed.graph.output.append(onnx.helper.make_tensor_value_info("codes", onnx.TensorProto.INT32, None))
    return run(exposed, want)[1].astype(np.int64)


def test_all_five_pages_are_there():
    assert {name.split("_")[0] for name in EXAMPLES} == {"tripy", "tensorrt", "torch", "pypto"}
    assert len(EXAMPLES) == 11


def test_the_output_is_exact(inserted):
    example, model = inserted
    want = expected(example)
    (y,) = run(model, want)
    assert y.dtype == np.float32
    assert np.array_equal(y, want["y"])


def test_the_codes_are_exact(inserted):
    example, model = inserted
    want = expected(example)
    assert np.array_equal(codes_of(model, want), want["codes"])


def test_the_inserted_model_passes_the_full_onnx_check(inserted):
    _, model = inserted
    onnx.checker.check_model(model, full_check=True)


def test_the_inserted_model_has_no_findings_as_plain_onnx(path):
    report = validate_model(path, targets=["onnx"])
    assert (report.summary.errors, report.summary.warnings) == (0, 0)


@pytest.mark.parametrize("example", WITH_CODES)
def test_the_codes_are_those_that_the_page_prints(example):
    want = expected(example)
    assert np.array_equal(want["codes"], want["page_codes"])


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_exact_output_agrees_with_the_printed_one(example):
    want = expected(example)
    assert float(want["page_tolerance"]) == LOOSE.get(example, 0.0)
    if "page_y" in want:
        assert np.abs(want["y"] - want["page_y"]).max() <= float(want["page_tolerance"])
    else:
        assert example in {"tripy_quantize_per_tensor", "tripy_quantize_per_channel"}


def test_the_generator_writes_what_is_committed(tmp_path):
    subprocess.run([sys.executable, "-m", "sample_models.pages.make", tmp_path], cwd=ROOT, check=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == EXAMPLES
    for example in EXAMPLES:
        for name in ("model.onnx", "plan.toml"):
            assert (tmp_path / example / name).read_bytes() == (PAGES / example / name).read_bytes()
        with np.load(tmp_path / example / "expected.npz") as again:
            assert {key: value.tolist() for key, value in again.items()} == {
                key: value.tolist() for key, value in expected(example).items()
            }
