"""What is absent is told with the line that installs it."""

import pytest

from qdqtool.engines.gpu import requirements
from qdqtool.engines.tensorrt.gpus import Gpu
from qdqtool.errors import CapabilityError

GPU = Gpu(name="NVIDIA L4", compute_capability="8.9")


def test_without_a_gpu_the_reason_of_the_driver_is_told(monkeypatch):
    monkeypatch.setattr(requirements, "find_gpus", lambda: ((), "no CUDA driver (libcuda is absent)"))
    with pytest.raises(CapabilityError) as failed:
        requirements.require_gpu()
    assert failed.value.message == "no NVIDIA GPU: no CUDA driver (libcuda is absent)"
    assert "`pip install cuda-python tensorrt-rtx`" in failed.value.hint


def test_the_first_gpu_is_used(monkeypatch):
    monkeypatch.setattr(requirements, "find_gpus", lambda: ((GPU, Gpu(name="other", compute_capability="8.0")), ""))
    assert requirements.require_gpu() == GPU


@pytest.mark.parametrize(
    ("library", "absent", "line"),
    [
        ("tensorrt-rtx", {"cuda.bindings"}, "`pip install cuda-python`"),
        ("tensorrt-rtx", {"cuda.bindings", "tensorrt_rtx"}, "`pip install cuda-python tensorrt-rtx`"),
        ("tensorrt", {"tensorrt"}, "`pip install tensorrt`"),
        ("onnxruntime", {"onnxruntime_ep_nv_tensorrt_rtx"}, "`pip install onnxruntime-ep-nv-tensorrt-rtx-cu13`"),
    ],
)
def test_one_line_installs_all_that_is_absent(library, absent, line, monkeypatch):
    monkeypatch.setattr(requirements, "is_installed", lambda module: module not in absent)
    with pytest.raises(CapabilityError) as failed:
        requirements.require_packages(library)
    assert all(f"'{module}'" in failed.value.message for module in absent)
    assert line in failed.value.hint


def test_nothing_is_asked_for_where_all_is_there(monkeypatch):
    monkeypatch.setattr(requirements, "is_installed", lambda module: True)
    for library in ("tensorrt", "tensorrt-rtx", "onnxruntime"):
        requirements.require_packages(library)


def test_a_folder_of_that_name_is_no_package(tmp_path, monkeypatch):
    (tmp_path / "tensorrt_that_is_a_folder").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    assert not requirements.is_installed("tensorrt_that_is_a_folder")
    assert not requirements.is_installed("nothing_of_that_name.bindings")
    assert requirements.is_installed("json")
