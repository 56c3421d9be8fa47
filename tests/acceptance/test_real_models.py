"""The whole way on every real model: insert a generated plan, validate, check, build, strip."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper
from support.generated_plan import write_generated_plan
from support.small import run

from qdqtool.engines.build.options import BuildOptions
from qdqtool.engines.build.profiles import ShapeOptions
from qdqtool.errors import GateError
from qdqtool.jobs.build import build_engine
from qdqtool.jobs.check import check_model
from qdqtool.jobs.insert import InsertOptions, insert_plan
from qdqtool.jobs.strip import strip_model
from qdqtool.jobs.validate import validate_model
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import GraphView
from qdqtool.models.graph.io.load import load_model
from qdqtool.models.options import WeightStorage
from qdqtool.models.transforms.opset import upgrade_opset
from qdqtool.samples.noise import random_feeds
from qdqtool.samples.request import DataRequest
from qdqtool.samples.signature import input_specs, with_shapes

pytestmark = pytest.mark.real

SHAPES: dict[str, dict[str, tuple[int, ...]]] = {
    "yunet_n_dynamic": {"input": (1, 3, 160, 160)},
    "silero_vad_16k_op15": {"input": (1, 576), "state": (2, 1, 128)},
}
REFUSED_AS_FLOAT = {"silero_vad_16k_op15"}


@dataclass(frozen=True)
class Case:
    """One real model, quantized both ways."""

    source: Path
    packed: Path
    qdq: Path
    feeds: dict[str, np.ndarray]
    shapes: dict[str, tuple[int, ...]]


@pytest.fixture
def case(real_model: Path, tmp_path: Path) -> Case:
    model = load_model(real_model)
    shapes = SHAPES.get(real_model.stem, {})
    specs = with_shapes(input_specs(model), shapes)
    feeds = next(iter(random_feeds(ModelIndex.of(model), specs, seed=1, samples=1)))
    plan = write_generated_plan(model, tmp_path, measured_ranges(model.proto, feeds))
    for storage in WeightStorage:
        insert_plan(real_model, plan, tmp_path / f"{storage.value}.onnx", InsertOptions(weights=storage))
    return Case(real_model, tmp_path / "packed.onnx", tmp_path / "qdq.onnx", feeds, shapes)


def measured_ranges(proto: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> dict[str, float]:
    """Absmax of every main-graph tensor that ONNX Runtime can show."""
    tapped = onnx.ModelProto()
    tapped.CopyFrom(onnx.shape_inference.infer_shapes(proto))
    known = {value.name for value in tapped.graph.output}
    tapped.graph.output.extend(value for value in tapped.graph.value_info if value.name not in known)
    names = [value.name for value in tapped.graph.output]
    arrays = dict(zip(names, run(tapped, feeds), strict=True)) | feeds
    return {name: float(np.abs(a).max()) for name, a in arrays.items() if a.dtype == np.float32 and a.size}


def weights(path: Path) -> dict[str, np.ndarray]:
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in onnx.load(path).graph.initializer}


def test_quantized_models_are_valid_everywhere(case: Case) -> None:
    for path in (case.packed, case.qdq):
        onnx.checker.check_model(path, full_check=True)
        report = validate_model(path, targets=["onnx", "ort-cpu", "tensorrt", "tensorrt-rtx"])
        errors = [f for model in report.models for t in model.targets for f in t.findings if f.severity == "error"]
        assert errors == []
        levels = onnxruntime.GraphOptimizationLevel
        for level in (levels.ORT_ENABLE_ALL, levels.ORT_DISABLE_ALL):
            options = onnxruntime.SessionOptions()
            options.graph_optimization_level = level
            options.log_severity_level = 4
            onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"]).run(None, case.feeds)


def test_every_qdq_agrees_with_the_reference(case: Case) -> None:
    for path in (case.packed, case.qdq):
        request = DataRequest(seed=1, samples=1, input_shapes=case.shapes)
        report = check_model(path, baseline=case.source, data=request)
        assert report.failures == ()
        assert report.qdq.checked + len(report.not_observed) == report.qdq.total
        assert report.qdq.checked > 0


@pytest.mark.builder
def test_it_builds_wherever_the_float_model_does(case: Case, tmp_path: Path) -> None:
    options = BuildOptions(shapes=ShapeOptions(opt=case.shapes))
    if case.source.stem in REFUSED_AS_FLOAT:
        for path in (case.source, case.packed):
            with pytest.raises(GateError, match="internal error in the control flow") as caught:
                build_engine(path, tmp_path / "e", backend="tensorrt-rtx", options=options)
            assert "--input-shapes" in str(caught.value.hint)
        options = BuildOptions(shapes=ShapeOptions(fixed=case.shapes))
    assert build_engine(case.source, tmp_path / "f", backend="tensorrt-rtx", options=options).passed
    report = build_engine(case.packed, tmp_path / "e", backend="tensorrt-rtx", options=options)
    assert report.planned["int8"] >= 1
    assert report.achieved["int8"] == report.planned["int8"]


def test_strip_gives_the_float_model_back(case: Case, tmp_path: Path) -> None:
    strip_model(case.qdq, tmp_path / "exact.onnx")
    opset = onnx.load(case.qdq).opset_import[0].version
    assert onnx.load(tmp_path / "exact.onnx") == upgrade_opset(load_model(case.source), opset).model.proto
    expected = run(str(case.source), case.feeds)
    for found, wanted in zip(run(str(tmp_path / "exact.onnx"), case.feeds), expected, strict=True):
        assert found.tobytes() == wanted.tobytes()


def test_stripped_packed_weights_are_within_half_a_step(case: Case, tmp_path: Path) -> None:
    strip_model(case.packed, tmp_path / "near.onnx")
    before, after = weights(case.source), weights(tmp_path / "near.onnx")
    steps = stored_steps(case.packed, before)
    assert steps
    assert steps.keys() == {name for name in before if name in after and not np.array_equal(before[name], after[name])}
    for name, step in steps.items():
        rounding = np.abs(before[name]) * 2.0**-22  # of the quotient and the product in float32
        assert np.all(np.abs(before[name] - after[name]) <= step / 2 + rounding), name


def stored_steps(packed: Path, before: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The scale of each element of each packed weight, by the name of the float weight."""
    view = GraphView(load_model(packed))
    found: dict[str, np.ndarray] = {}
    for node in view.nodes():
        name = node.input_name(0).removesuffix("_quantized")
        if node.is_op("DequantizeLinear") and name != node.input_name(0):
            scale = node.input(1)
            assert scale is not None
            shape = [1] * before[name].ndim
            shape[node.attribute("axis", 0)] = -1  # without an axis there is one scale
            found[name] = numpy_helper.to_array(scale.initializer).reshape(shape)
    return found
