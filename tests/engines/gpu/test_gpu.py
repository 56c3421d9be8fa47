"""What only a GPU can show: engines run with the numbers of the reference, and times and layers can be read.

Run by ``make gpu-test``. Without a GPU, or where a package is absent, every test here is skipped, visibly. None of them
has ever run: no machine that this was written on had a GPU, and nothing is claimed of it.
"""

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from support.command import qdqtool_process
from support.engine_models import conv, matmul, save
from support.paths import ROOT

from qdqtool.accuracy.checking.limits import Gates
from qdqtool.accuracy.checking.options import CheckOptions
from qdqtool.engines.build.options import BuildOptions
from qdqtool.engines.build.profiles import ShapeOptions
from qdqtool.engines.gpu.requirements import require_packages
from qdqtool.engines.gpu.runners import open_runner
from qdqtool.engines.gpu.timing import TimingOptions
from qdqtool.engines.tensorrt import backends
from qdqtool.engines.tensorrt.gpus import Gpu, find_gpus
from qdqtool.errors import CapabilityError, UsageError
from qdqtool.jobs.bench import bench_engine
from qdqtool.jobs.build import build_engine
from qdqtool.jobs.check import check_model
from qdqtool.jobs.quantize import quantize_model
from qdqtool.jobs.run import run_engine

pytestmark = pytest.mark.gpu
CNN = ROOT / "sample_models" / "digits_cnn"
TEST = CNN / "test.npz"


class Backend(NamedTuple):
    """One product on this GPU: its id, and the compute capabilities that it must be told to build for."""

    name: str
    targets: tuple[str, ...]

    def build(self, model: Path, engine: Path, shapes: ShapeOptions | None = None):
        options = BuildOptions(compute_capabilities=self.targets, timeout=600, shapes=shapes or ShapeOptions())
        return build_engine(model, engine, backend=self.name, options=options)


@pytest.fixture(scope="module")
def gpu() -> Gpu:
    gpus, reason = find_gpus()
    if not gpus:
        pytest.skip(f"no GPU: {reason}")
    return gpus[0]


@pytest.fixture(scope="module", params=["tensorrt-rtx", "tensorrt"])
def backend(request, gpu: Gpu) -> Backend:
    """Each product that is installed and builds for this GPU."""
    name = request.param
    known = backends.get(name).capabilities
    if known and gpu.compute_capability not in known:
        pytest.skip(f"{name} does not build for compute capability {gpu.compute_capability}")
    try:
        require_packages(name)
    except CapabilityError as error:
        pytest.skip(error.message)
    return Backend(name, (gpu.compute_capability,) if known else ())


@pytest.fixture(scope="module")
def networks(tmp_path_factory) -> dict[str, Path]:
    """The sample CNN as it is, and in int8."""
    folder = tmp_path_factory.mktemp("networks")
    quantize_model(CNN / "model.onnx", CNN / "calibration.npz", folder / "int8.onnx")
    return {"float": CNN / "model.onnx", "int8": folder / "int8.onnx"}


@pytest.fixture(scope="module")
def engines(backend, networks, tmp_path_factory) -> dict[str, Path]:
    """The engines of both."""
    folder = tmp_path_factory.mktemp("engines")
    for kind, model in networks.items():
        backend.build(model, folder / f"{kind}.engine")
    return {kind: folder / f"{kind}.engine" for kind in networks}


@pytest.mark.parametrize("make", [conv, matmul])
def test_a_built_engine_loads_with_the_inputs_and_outputs_of_the_model(backend, make, tmp_path):
    backend.build(save(make(), tmp_path), tmp_path / "e.engine")
    with open_runner(tmp_path / "e.engine", backend.name) as runner:
        assert [spec.name for spec in runner.inputs] == ["x"]
        assert runner.outputs == ("y",)


def test_tensorrt_reports_from_the_inspector(backend, tmp_path):
    if backend.name != "tensorrt":
        pytest.skip("TensorRT for RTX reports from the ahead-of-time dump")
    report = backend.build(save(conv(), tmp_path), tmp_path / "e.engine")
    assert report.evidence == "inspector"
    assert report.nodes[0].actual == "int8"


@pytest.mark.parametrize("kind", ["float", "int8"])
def test_an_engine_is_as_close_to_the_reference_as_int8_is_to_float(kind, networks, engines):
    # kernels sum in another order and round at other places; what int8 itself costs bounds how far that may go
    quantized = check_model(networks["int8"], baseline=networks["float"], data=TEST)
    gates = Gates(min_sqnr=quantized.outputs[0].sqnr_db, max_metric_loss=0.5)
    report = check_model(
        networks[kind], data=TEST, options=CheckOptions(engine=engines[kind], metric="top-1", gates=gates)
    )
    assert report.passed, report.failures


def test_outputs_of_other_samples_fail(networks, engines, tmp_path):
    with np.load(TEST) as stored:
        np.savez(tmp_path / "data.npz", image=np.flip(stored["image"], -1))
    run_engine(engines["float"], tmp_path / "data.npz", tmp_path / "flipped.npz")
    options = CheckOptions(outputs=tmp_path / "flipped.npz", gates=Gates(min_sqnr=20))
    assert not check_model(networks["float"], data=TEST, options=options).passed


def test_outputs_of_run_are_those_that_check_reads(networks, engines, tmp_path):
    report = run_engine(engines["float"], TEST, tmp_path / "o.npz")
    checked = check_model(
        networks["float"], data=TEST, options=CheckOptions(outputs=tmp_path / "o.npz", gates=Gates(min_sqnr=40))
    )
    assert checked.passed, checked.failures
    assert report.outputs["logits"][0] == report.data.samples
    run_engine(engines["float"], TEST, tmp_path / "again.npz")
    assert (tmp_path / "o.npz").read_bytes() == (tmp_path / "again.npz").read_bytes()


def test_a_dynamic_batch_runs_in_its_range_and_nowhere_else(backend, tmp_path):
    import onnx

    model = onnx.load(save(matmul(), tmp_path))
    name, shape = (
        model.graph.input[0].name,
        [each.dim_value for each in model.graph.input[0].type.tensor_type.shape.dim],
    )
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "batch"
    onnx.save(model, tmp_path / "dynamic.onnx")
    sizes = {rows: (rows, *shape[1:]) for rows in (1, 2, 4)}
    shapes = ShapeOptions(min={name: sizes[1]}, opt={name: sizes[2]}, max={name: sizes[4]})
    backend.build(tmp_path / "dynamic.onnx", tmp_path / "e.engine", shapes)
    with open_runner(tmp_path / "e.engine", backend.name) as runner:
        assert runner.example_inputs()[0].shape == sizes[2]
        for rows, size in sizes.items():
            assert runner.run({name: np.ones(size, np.float32)})["y"].shape[0] == rows
        with pytest.raises(UsageError, match="the engine was built for"):
            runner.run({name: np.ones((5, *shape[1:]), np.float32)})


def test_times_and_layers_are_measured(backend, engines, capsys):
    report = bench_engine(engines["int8"], against=engines["float"], timing=TimingOptions(rounds=4, runs=50))
    for each in (report.engine, report.against):
        assert 0 < each.times.min <= each.times.p50 <= each.times.p90 <= each.times.max
        assert each.layers
        assert sum(layer.milliseconds for layer in each.layers) > 0
    assert report.comparison.groups, "no layer of one engine has a counterpart in the other"
    with capsys.disabled():
        figures = ", ".join(f"{each.engine.file} {each.times.p50:.4f} ms" for each in (report.engine, report.against))
        print(f"\n{backend.name}, batch 1: {figures}")  # noqa: T201  the figures are what this test is for


def test_a_speedup_that_no_engine_has_is_missed(engines):
    words = ("bench", engines["int8"], "--against", engines["float"], "--rounds", "2", "--output-format", "json")
    done = qdqtool_process(*words, "--speedup", ">=1000x")
    assert done.code == 1, done.err
    assert json.loads(done.out)["gate"]["passed"] is False
    assert qdqtool_process(*words, "--speedup", ">=0.001x").code == 0


def test_onnxruntimes_provider_gives_the_numbers_of_the_reference(gpu, networks):
    try:
        require_packages("onnxruntime")
    except CapabilityError as error:
        pytest.skip(error.message)
    for kind, model in networks.items():
        options = CheckOptions(engine=model, gates=Gates(min_sqnr=20))
        report = check_model(model, data=TEST, options=options)
        assert report.passed, (kind, report.failures)
