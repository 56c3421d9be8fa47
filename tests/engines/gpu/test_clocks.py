"""Clocks of the GPU that CUDA runs on, or why they are not known."""

import sys
from types import SimpleNamespace

import pytest
from support.host_gpu import install

from qdqtool.engines.gpu.clocks import ClockMeter, Clocks


class NVMLError(Exception):
    pass


def nvml(**changes) -> SimpleNamespace:
    asked: list[object] = []
    clocks = {1: 1800, 2: 7000}
    found = {
        "NVMLError": NVMLError,
        "NVML_CLOCK_SM": 1,
        "NVML_CLOCK_MEM": 2,
        "nvmlInit": lambda: asked.append("init"),
        "nvmlShutdown": lambda: asked.append("shutdown"),
        "nvmlDeviceGetHandleByPciBusId": lambda bus: ("device", bus),
        "nvmlDeviceGetClockInfo": lambda device, kind: clocks[kind] if device == ("device", b"0000:01:00.0") else 0,
        "asked": asked,
    }
    return SimpleNamespace(**{**found, **changes})


def refuse(*_: object):
    raise NVMLError("Not Supported")


def test_the_clocks_are_those_of_the_gpu_of_cuda(monkeypatch):
    install(monkeypatch, {})
    module = nvml()
    monkeypatch.setitem(sys.modules, "pynvml", module)
    with ClockMeter() as meter:
        assert meter.read() == Clocks(1800, 7000)
        assert meter.reason == ""
    assert module.asked == ["init", "shutdown"]


@pytest.mark.parametrize("function", ["nvmlInit", "nvmlDeviceGetHandleByPciBusId", "nvmlDeviceGetClockInfo"])
def test_what_nvml_refuses_is_the_reason(function, monkeypatch):
    install(monkeypatch, {})
    monkeypatch.setitem(sys.modules, "pynvml", nvml(**{function: refuse}))
    with ClockMeter() as meter:
        assert meter.read() is None
    assert meter.reason == "Not Supported"


def test_without_the_package_it_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with ClockMeter() as meter:
        assert meter.read() is None
    assert "nvidia-ml-py" in meter.reason
