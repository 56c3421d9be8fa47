"""``check --engine``: the outputs of an engine against the reference, on fake runners and the sample CNN."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from support.command import qdqtool
from support.fake_runner import FakeRunner
from support.gpu_job import with_runners
from support.paths import ROOT

from qdqtool.accuracy.checking.limits import Gates
from qdqtool.accuracy.checking.options import CheckOptions
from qdqtool.errors import CapabilityError, ModelError, UsageError
from qdqtool.jobs.check import check_model
from qdqtool.models.graph.io.load import load_model
from qdqtool.samples.signature import input_specs

ort = pytest.importorskip("onnxruntime")
CNN = ROOT / "sample_models" / "digits_cnn"
MODEL = CNN / "model.onnx"


MANIFEST = {
    "schema_version": 1,
    "macs": {"by_type": {}},
    "backend": "tensorrt-rtx",
    "versions": {},
    "targets": [],
    "evidence": "none",
    "planned": {},
    "achieved": {},
    "kernels": [],
    "conversions": None,
}


def write_manifest(folder: Path, engine: bytes, model: bytes) -> None:
    files = {
        what: {"name": f"{what}.file", "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        for what, content in (("engine", engine), ("model", model))
    }
    (folder / "e.engine.manifest.json").write_text(json.dumps(MANIFEST | files))


@pytest.fixture
def data(tmp_path):
    with np.load(CNN / "test.npz") as stored:
        np.savez(tmp_path / "data.npz", image=stored["image"][:6])
    (tmp_path / "e.engine").write_bytes(b"vtrt")
    return tmp_path / "data.npz"


def engine(wrong=lambda logits: logits) -> FakeRunner:
    """An engine that computes what ONNX Runtime does, and ``wrong`` of it."""
    session = ort.InferenceSession(str(MODEL), providers=["CPUExecutionProvider"])
    return FakeRunner(
        lambda sample: {"logits": wrong(session.run(None, dict(sample))[0])},
        inputs=input_specs(load_model(MODEL)),
        outputs=("logits",),
    )


def options(folder, **limits: float) -> CheckOptions:
    return CheckOptions(engine=folder / "e.engine", gates=Gates(**limits))


def test_an_engine_that_computes_the_model_passes(data, monkeypatch):
    with_runners(monkeypatch, {"e.engine": engine()})
    report = check_model(MODEL, data=data, options=options(data.parent, min_sqnr=60))
    assert report.passed
    assert {"outputs-finite", "outputs-accuracy", "outputs-min-sqnr"} <= {gate.name for gate in report.gates}
    assert report.saved_outputs.file == str(data.parent / "e.engine")
    assert report.saved_outputs.computed_by == "tensorrt-rtx 1.7.1 on NVIDIA L4, compute capability 8.9"


@pytest.mark.parametrize(
    ("wrong", "gate"),
    [
        (lambda logits: logits + 5 * np.sin(np.arange(10, dtype=np.float32)), "outputs-min-sqnr"),
        (lambda logits: -logits, "outputs-accuracy"),
        (np.zeros_like, "outputs-accuracy"),
        (lambda logits: logits * np.float32("nan"), "outputs-finite"),
    ],
)
def test_an_engine_with_other_outputs_fails(wrong, gate, data, monkeypatch):
    with_runners(monkeypatch, {"e.engine": engine(wrong)})
    report = check_model(MODEL, data=data, options=options(data.parent, min_sqnr=30))
    assert not report.passed
    assert gate in {each.name for each in report.gates if not each.passed}


def test_random_inputs_are_given_to_both(data, monkeypatch):
    with_runners(monkeypatch, {"e.engine": engine()})
    assert check_model(MODEL, options=options(data.parent, min_sqnr=60)).passed
    with_runners(monkeypatch, {"e.engine": engine(lambda logits: -logits)})
    assert not check_model(MODEL, options=options(data.parent, min_sqnr=60)).passed


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"outputs": ("scores",)}, "the engine has the outputs scores; the model has logits"),
        ({"inputs": ()}, "the engine has the inputs none; the model has image"),
    ],
)
def test_the_engine_of_another_model_is_refused(changes, says, data, monkeypatch):
    other = engine()
    for name, value in changes.items():
        setattr(other, name, value)
    with_runners(monkeypatch, {"e.engine": other})
    with pytest.raises(UsageError, match=says):
        check_model(MODEL, data=data, options=options(data.parent))
    assert ("", "run") not in other.calls


def test_the_manifest_of_another_engine_is_refused(data, monkeypatch):
    with_runners(monkeypatch, {"e.engine": engine()})
    write_manifest(data.parent, b"old", MODEL.read_bytes())
    with pytest.raises(ModelError, match="is the manifest of another engine"):
        check_model(MODEL, data=data, options=options(data.parent))


@pytest.mark.parametrize("content", [MODEL.read_bytes(), b"another"])
def test_an_engine_that_was_built_from_another_file_is_told(content, data, monkeypatch):
    # its numbers may be close enough: those of a float engine are, beside the int8 model
    with_runners(monkeypatch, {"e.engine": engine()})
    write_manifest(data.parent, b"vtrt", content)
    report = check_model(MODEL, data=data, options=options(data.parent, min_sqnr=60))
    told = [warning for warning in report.warnings if "was built from another model file" in warning]
    assert len(told) == (content == b"another")
    assert all("'model.file'" in warning for warning in told)


def test_an_engine_and_a_file_exclude_each_other(data, monkeypatch):
    with_runners(monkeypatch, {})
    both = CheckOptions(engine=data.parent / "e.engine", outputs=data)
    with pytest.raises(UsageError, match="--engine and --outputs both give"):
        check_model(MODEL, data=data, options=both)


def test_without_a_gpu_nothing_is_read():
    from qdqtool.engines.tensorrt.gpus import find_gpus

    if find_gpus()[0]:
        pytest.skip("there is a GPU")
    with pytest.raises(CapabilityError, match="no NVIDIA GPU"):
        check_model("absent.onnx", options=CheckOptions(engine=MODEL))


def test_the_command_says_what_ran(data, monkeypatch):
    with_runners(monkeypatch, {"e.engine": engine()})
    done = qdqtool("check", MODEL, "--data", data, "--engine", data.parent / "e.engine", "--min-sqnr", "60")
    assert done.code == 0
    assert "e.engine (tensorrt-rtx 1.7.1 on NVIDIA L4, compute capability 8.9) against the reference" in done.out
