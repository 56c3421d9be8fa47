"""What only a GPU can show: a built engine loads, and the engine inspector of TensorRT is understood.

Run by ``make gpu-test``. Without a GPU every test here is skipped, visibly; nothing is claimed of what was not run.
"""

import ctypes

import pytest
from support.engine_models import conv, matmul, save

from qdqtool.pipeline.build import build_engine
from qdqtool.pipeline.build_options import BuildOptions

pytestmark = pytest.mark.gpu


def _gpus():
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int()
    return count.value if driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 else 0


@pytest.fixture(params=["tensorrt_rtx", "tensorrt"])
def backend(request):
    """Each product that is installed, as (module, backend name)."""
    if not _gpus():
        pytest.skip("no NVIDIA GPU")
    return pytest.importorskip(request.param), request.param.replace("_", "-")


@pytest.mark.parametrize("make", [conv, matmul])
def test_a_built_engine_loads_on_the_gpu_with_the_inputs_of_the_model(backend, make, tmp_path):
    trt, name = backend
    path = save(make(), tmp_path)
    build_engine(path, tmp_path / "e.engine", backend=name, options=BuildOptions(timeout=600))
    engine = trt.Runtime(trt.Logger(trt.Logger.ERROR)).deserialize_cuda_engine((tmp_path / "e.engine").read_bytes())
    assert engine is not None
    names = {engine.get_tensor_name(index) for index in range(engine.num_io_tensors)}
    assert names == {"x", "y"}


def test_tensorrt_reports_from_the_inspector(backend, tmp_path):
    _, name = backend
    if name != "tensorrt":
        pytest.skip("TensorRT for RTX reports from the ahead-of-time dump")
    report = build_engine(save(conv(), tmp_path), tmp_path / "e.engine", backend=name)
    assert report.evidence == "inspector"
    assert report.nodes[0].actual == "int8"
