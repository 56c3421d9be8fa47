"""Real models through quantize, in int8 and fp8: valid for their targets, close to the float model, built as meant."""

from pathlib import Path

import pytest

from qdqtool.engines.build.options import BuildOptions
from qdqtool.jobs.build import build_engine
from qdqtool.jobs.check import check_model
from qdqtool.jobs.quantize import QuantizeOptions, quantize_model
from qdqtool.jobs.validate import validate_model
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.samples.request import DataRequest, RandomData

pytestmark = pytest.mark.real

SHAPES = {
    "yunet_n_dynamic": {"input": (1, 3, 320, 320)},
    "silero_vad_16k_op15": {"input": (1, 576), "state": (2, 1, 128)},
}
"""Shapes that a model leaves open, and that TensorRT and random data need."""

TARGETS = ("tensorrt", "tensorrt-rtx", "ort-cpu", "onnx")
FORMATS = {"int8": "int8", "fp8": "float8e4m3fn"}
LEAST_SQNR = {"int8": 15.0, "fp8": 10.0}
"""In dB. On noise int8 kept 18 to 48 when this was written and fp8, with three bits behind the point, 13.6 to 33; one
bit less of resolution anywhere costs 6."""

NEAR_ZERO = ("obj_8", "obj_16", "obj_32")
"""Outputs of the face detector that say how sure it is of a face: on noise they are all but zero."""


@pytest.fixture(scope="module")
def shapes(real_model: Path) -> dict[str, tuple[int, ...]]:
    return SHAPES.get(real_model.stem, {})


@pytest.fixture(scope="module", params=FORMATS)
def mode(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def quantized(
    mode: str, real_model: Path, shapes: dict[str, tuple[int, ...]], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    output = tmp_path_factory.mktemp("quantized") / "q.onnx"
    options = QuantizeOptions(recipe=Recipe(quantize_mode=mode, input_shapes=shapes))
    report = quantize_model(real_model, RandomData(seed=0, samples=8), output, options)
    assert all(step.max_difference is None or step.max_difference <= step.limit for step in report.preparation)
    return output


def test_the_result_passes_validate_for_every_target(quantized):
    assert validate_model(quantized, TARGETS).summary.errors == 0


def test_the_result_keeps_the_outputs_of_the_float_model(quantized, mode, real_model, shapes):
    data = DataRequest(seed=1, input_shapes=shapes)
    report = check_model(quantized, baseline=real_model, data=data)
    assert report.passed, report.failures
    kept = {output.name: output.sqnr_db for output in report.outputs if output.name not in NEAR_ZERO}
    assert {name: db for name, db in kept.items() if db is None or db < LEAST_SQNR[mode]} == {}


@pytest.mark.builder
def test_every_planned_node_is_compiled_to_its_format(quantized, mode, tmp_path):
    pytest.importorskip("tensorrt_rtx")
    options = BuildOptions(compute_capabilities=("8.9",), timeout=300)
    report = build_engine(quantized, tmp_path / "q.engine", backend="tensorrt-rtx", options=options)
    assert set(report.planned) == {FORMATS[mode]}
    assert report.achieved == report.planned
