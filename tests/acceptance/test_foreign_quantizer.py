"""What ONNX Runtime's own quantizer makes with its default options, fixed until TensorRT for RTX builds it."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_static
from support.command import qdqtool
from support.paths import ROOT
from support.rawdiff import changed_fields
from support.trt_verdict import TrtOracle

from qdqtool.jobs.fix import FixRequest, fix_models
from qdqtool.jobs.validate import validate_model
from qdqtool.linting.policy import Policy
from qdqtool.linting.repair.report import FixedModel
from qdqtool.models.graph.io.load import load_model
from qdqtool.models.running.ort_cpu import Session
from qdqtool.samples.request import DataRequest

SAMPLES = ROOT / "sample_models"
FOLDERS = ("digits_cnn", "digits_transformer")
TYPES: dict[str, dict[str, Any]] = {
    "defaults of the installed release": {},
    "uint8, as older releases": {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QUInt8},
}
POLICY = Policy(targets=("tensorrt", "tensorrt-rtx"))


class Reader(CalibrationDataReader):
    def __init__(self, folder: str) -> None:
        arrays = np.load(SAMPLES / folder / "calibration.npz")
        self._samples = iter([{name: arrays[name][i : i + 1] for name in arrays.files} for i in range(32)])

    def get_next(self) -> dict[str, Any] | None:
        return next(self._samples, None)


@pytest.fixture(scope="module", params=[(folder, kind) for folder in FOLDERS for kind in TYPES], ids="-".join)
def fixed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, FixedModel]:
    folder, kind = request.param
    path = tmp_path_factory.mktemp("foreign") / "model.onnx"
    quantize_static(SAMPLES / folder / "model.onnx", path, Reader(folder), **TYPES[kind])
    data = DataRequest(path=SAMPLES / folder / "calibration.npz", samples=32)
    wanted = FixRequest(policy=POLICY, unsafe=True, output=path.with_name("fixed.onnx"), data=data)
    return folder, fix_models([path], wanted).models[0]


@pytest.fixture(scope="module")
def oracle() -> Iterator[TrtOracle]:
    oracle = TrtOracle()
    yield oracle
    oracle.close()


@pytest.mark.builder
def test_tensorrt_for_rtx_refuses_it_before_and_builds_it_after(fixed: tuple[str, FixedModel], oracle: TrtOracle):
    _, model = fixed

    assert not oracle.judge(static(onnx.load(model.path))).accepted
    verdict = oracle.judge(static(onnx.load(str(model.output))))

    assert verdict.accepted, verdict.message


def test_what_repeats_is_diagnosed_and_the_commands_of_the_diagnosis_give_a_good_model(tmp_path: Path):
    float_model, data = SAMPLES / "digits_cnn" / "model.onnx", SAMPLES / "digits_cnn" / "calibration.npz"
    path = tmp_path / "bad.onnx"
    quantize_static(float_model, path, Reader("digits_cnn"), **TYPES["uint8, as older releases"])

    done = qdqtool("validate", path)
    text = done.out.replace("FLOAT.onnx", str(float_model)).replace("DATA", str(data))
    commands = [shlex.split(each) for each in re.findall("`qdqtool ([^`]*)`", text)]
    report = validate_model(path)
    (target,) = report.models[0].targets

    assert done.code == 1
    assert {cause.cause for cause in target.causes} == {"uint8 activations"}
    assert [words[0] for words in commands] == ["quantize", "quantize"]
    for words in commands:
        assert qdqtool(*words, "--samples", "4").code == 0
        assert qdqtool("validate", words[-1]).code == 0


@pytest.mark.parametrize("types", TYPES.values(), ids=TYPES)
def test_fix_makes_as_many_safe_edits_as_validate_promises(types: dict[str, Any], tmp_path: Path):
    path, out = tmp_path / "bad.onnx", tmp_path / "fixed.onnx"
    quantize_static(SAMPLES / "digits_cnn" / "model.onnx", path, Reader("digits_cnn"), **types)
    promised = sum(finding.safe_fix for finding in validate_model(path).findings)

    (model,) = fix_models([path], FixRequest(output=out)).models

    assert model.repaired is not None
    assert 0 < promised == len(model.repaired.changes)
    assert len(validate_model(path).findings) - promised == len(validate_model(out).findings)


def test_nothing_is_left_and_every_change_is_labelled(fixed: tuple[str, FixedModel]):
    _, model = fixed
    assert model.repaired is not None

    assert [target.target for target in model.targets] == list(POLICY.targets)
    assert all(target.verdict == "pass" and not target.findings for target in model.targets)
    assert not model.repaired.refused
    labels = {change.label for change in model.repaired.changes}
    assert labels == {"safe", "unsafe"}
    assert all(change.proof and change.description and change.node for change in model.repaired.changes)
    biases = [change for change in model.repaired.changes if change.code == "QL301"]
    assert biases
    assert {change.label for change in biases} == {"safe"}


def test_the_loss_is_stated_and_small(fixed: tuple[str, FixedModel]):
    _, model = fixed
    assert model.repaired is not None
    (logits,) = model.repaired.outputs

    assert logits.before_db is not None
    assert logits.after_db is not None
    assert logits.sqnr_db is not None
    assert not logits.exact
    assert logits.after_db > logits.before_db - 6.1  # one bit, when a one-sided range becomes a symmetric one


def test_it_classifies_as_well_as_before(fixed: tuple[str, FixedModel]):
    folder, model = fixed
    assert accuracy(folder, str(model.output)) >= accuracy(folder, model.path) - 0.02


def test_fixing_it_again_changes_nothing(fixed: tuple[str, FixedModel], tmp_path: Path):
    folder, model = fixed
    assert model.output is not None
    again = tmp_path / "again.onnx"
    data = DataRequest(path=SAMPLES / folder / "calibration.npz", samples=2)

    report = fix_models([Path(model.output)], FixRequest(policy=POLICY, unsafe=True, output=again, data=data))

    assert report.models[0].repaired is not None
    assert not report.models[0].repaired.changes
    assert again.read_bytes() == Path(model.output).read_bytes()


def test_only_what_quantizes_changes(fixed: tuple[str, FixedModel]):
    _, model = fixed
    paths = changed_fields(onnx.load(model.path), onnx.load(str(model.output)))
    told = ("graph.node", "graph.initializer", "graph.value_info")
    assert paths
    assert all(path.lstrip("+-").startswith(told) for path in paths), paths


def static(model: onnx.ModelProto) -> onnx.ModelProto:
    """The builder wants a profile for a dynamic batch; the verdict is about Q/DQ."""
    for value in (*model.graph.input, *model.graph.output):
        for dim in value.type.tensor_type.shape.dim:
            if not dim.HasField("dim_value"):
                dim.dim_value = 1
    del model.graph.value_info[:]
    return model


def accuracy(folder: str, path: str) -> float:
    arrays = np.load(SAMPLES / folder / "test.npz")
    model = load_model(Path(path))
    (name,) = (value.name for value in model.proto.graph.input)
    labels = next(arrays[key] for key in arrays.files if key != name)
    with Session(model) as session:
        logits = np.concatenate([session.run({name: image[None]})["logits"] for image in arrays[name]])
    return float(np.mean(np.argmax(logits, axis=1) == labels))
