"""What only a GPU can show: a built engine loads, runs, and gives the numbers of the reference.

Run by ``make gpu-test``. Without a GPU, or where the runtime does not take the engine, every test here is skipped,
visibly. None of them has ever run: no machine that this was written on had a GPU, and nothing is claimed of it.
"""

from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import numpy as np
import pytest
from support.cuda import CudaError, Driver, Runner
from support.engine_models import conv, matmul, save
from support.paths import ROOT

from qdqtool.builders import backends
from qdqtool.checking.limits import Gates
from qdqtool.checking.options import CheckOptions
from qdqtool.engine.options import BuildOptions
from qdqtool.jobs.build import build_engine
from qdqtool.jobs.check import check_model
from qdqtool.jobs.quantize import quantize_model

pytestmark = pytest.mark.gpu
CNN = ROOT / "sample_models" / "digits_cnn"


class Backend(NamedTuple):
    """One product on this GPU: how to build for it, and how to run what was built."""

    trt: ModuleType
    name: str
    options: BuildOptions
    driver: Driver

    def build(self, model: Path, engine: Path):
        return build_engine(model, engine, backend=self.name, options=self.options)

    def load(self, engine: Path) -> Runner:
        try:
            return Runner(self.trt, engine, self.driver)
        except CudaError as error:
            pytest.skip(str(error))


@pytest.fixture(scope="module", params=["tensorrt_rtx", "tensorrt"])
def backend(request):
    """Each product that is installed and builds for this GPU."""
    try:
        driver = Driver()
    except CudaError as error:
        pytest.skip(str(error))
    name = request.param.replace("_", "-")
    known = backends.get(name).capabilities
    if known and driver.capability() not in known:
        pytest.skip(f"{name} does not build for compute capability {driver.capability()}")
    trt = pytest.importorskip(request.param)
    options = BuildOptions(compute_capabilities=(driver.capability(),) if known else (), timeout=600)
    return Backend(trt, name, options, driver)


@pytest.mark.parametrize("make", [conv, matmul])
def test_a_built_engine_loads_with_the_inputs_and_outputs_of_the_model(backend, make, tmp_path):
    backend.build(save(make(), tmp_path), tmp_path / "e.engine")
    with backend.load(tmp_path / "e.engine") as runner:
        names = {runner.engine.get_tensor_name(index) for index in range(runner.engine.num_io_tensors)}
    assert names == {"x", "y"}


def test_tensorrt_reports_from_the_inspector(backend, tmp_path):
    if backend.name != "tensorrt":
        pytest.skip("TensorRT for RTX reports from the ahead-of-time dump")
    report = backend.build(save(conv(), tmp_path), tmp_path / "e.engine")
    assert report.evidence == "inspector"
    assert report.nodes[0].actual == "int8"


@pytest.fixture(scope="module")
def networks(tmp_path_factory):
    """The sample CNN as it is, and in int8."""
    folder = tmp_path_factory.mktemp("networks")
    quantize_model(CNN / "model.onnx", CNN / "calibration.npz", folder / "int8.onnx")
    return {"float": CNN / "model.onnx", "int8": folder / "int8.onnx"}


@pytest.fixture(scope="module")
def images():
    with np.load(CNN / "test.npz") as stored:
        return stored["image"]


@pytest.mark.parametrize("kind", ["float", "int8"])
def test_an_engine_is_as_close_to_the_reference_as_int8_is_to_float(kind, backend, networks, images, tmp_path):
    # kernels sum in another order and round at other places; what int8 itself costs bounds how far that may go
    quantized = check_model(networks["int8"], baseline=networks["float"], data=CNN / "test.npz")
    allowed = quantized.outputs[0].sqnr_db
    backend.build(networks[kind], tmp_path / "e.engine")
    with backend.load(tmp_path / "e.engine") as runner:
        rows = [runner.run({"image": image[None]})["logits"] for image in images]
    np.savez(tmp_path / "outputs.npz", logits=np.concatenate(rows))
    options = CheckOptions(
        outputs=tmp_path / "outputs.npz", metric="top-1", gates=Gates(min_sqnr=allowed, max_metric_loss=0.5)
    )
    report = check_model(networks[kind], data=CNN / "test.npz", options=options)
    assert report.passed, report.failures


def test_how_long_int8_and_float_take(backend, networks, images, tmp_path, capsys):
    taken = {}
    for kind, path in networks.items():
        backend.build(path, tmp_path / f"{kind}.engine")
        with backend.load(tmp_path / f"{kind}.engine") as runner:
            taken[kind] = runner.milliseconds({"image": images[:1]})
    with capsys.disabled():
        figures = ", ".join(f"{kind} {ms:.4f} ms" for kind, ms in taken.items())
        print(f"\n{backend.name}, batch 1: {figures}")  # noqa: T201  the figures are what this test is for
    assert all(ms > 0 for ms in taken.values())
