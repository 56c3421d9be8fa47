"""Which library runs a file."""

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from support.small import conv_model

from qdqtool.engines.gpu import requirements
from qdqtool.engines.gpu.runner import LayerTime, with_nodes
from qdqtool.engines.gpu.runners import OnnxRuntimeRunner, library_of, open_runner
from qdqtool.errors import CapabilityError, GateError, ModelError, UsageError


@pytest.mark.parametrize(
    ("name", "content", "backend", "library"),
    [
        ("m.onnx", b"", None, "onnxruntime"),
        ("e.engine", b"vtrt\0\0", None, "tensorrt-rtx"),
        ("e.engine", b"ftrt\0\0", None, "tensorrt"),
        ("e.engine", b"ftrt\0\0", "tensorrt-rtx", "tensorrt-rtx"),
        ("e.engine", b"vtrt\0\0", "tensorrt", "tensorrt"),
    ],
)
def test_the_manifest_says_it_and_else_the_file(name, content, backend, library, tmp_path: Path):
    (tmp_path / name).write_bytes(content)
    assert library_of(tmp_path / name, backend) == library


def test_a_file_that_is_not_there_is_the_libraries_to_refuse(tmp_path: Path):
    assert library_of(tmp_path / "absent", None) == "tensorrt"


def test_packages_are_asked_for_before_the_file_is_read(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(requirements, "is_installed", lambda module: False)
    with pytest.raises(CapabilityError, match=r"cannot find 'cuda.bindings', 'tensorrt_rtx'"):
        open_runner(tmp_path / "absent", "tensorrt-rtx")


def test_the_engines_of_this_builder_begin_as_expected(tmp_path: Path):
    pytest.importorskip("tensorrt_rtx")
    from support.engine_models import matmul, save

    from qdqtool.jobs.build import build_engine

    build_engine(save(matmul(), tmp_path), tmp_path / "e.engine", backend="tensorrt-rtx")
    assert library_of(tmp_path / "e.engine", None) == "tensorrt-rtx"


def test_layers_without_nodes_get_those_of_the_manifest():
    layers = (LayerTime("a", ("conv",), 1.0), LayerTime("b", (), 2.0), LayerTime("c", (), 3.0))
    assert with_nodes(layers, {"a": ("other",), "b": ("relu",)}) == (
        LayerTime("a", ("conv",), 1.0),
        LayerTime("b", ("relu",), 2.0),
        LayerTime("c", (), 3.0),
    )


ort = pytest.importorskip("onnxruntime")
NAME = "NvTensorRTRTXExecutionProvider"


class Options(ort.SessionOptions):
    """Session options that note what is asked of them; the provider for the GPU is left out."""

    made: "list[Options]" = []  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__()
        self.entries: dict[str, str] = {}
        self.devices: list[object] = []
        self.made.append(self)

    def add_session_config_entry(self, name: str, value: str) -> None:
        self.entries[name] = value

    def add_provider_for_devices(self, devices: list[object], options: dict[str, str]) -> None:
        self.devices = devices


@pytest.fixture
def provider(monkeypatch):
    """The provider's package, and the devices that ONNX Runtime lists once it is registered."""
    Options.made.clear()
    listed = [SimpleNamespace(ep_name="CPUExecutionProvider")]
    gpus = [SimpleNamespace(ep_name=NAME, number=number) for number in range(2)]
    module = SimpleNamespace(get_ep_name=lambda: NAME, get_library_path=lambda: "/lib.so", gpus=gpus)
    monkeypatch.setitem(sys.modules, "onnxruntime_ep_nv_tensorrt_rtx", module)
    monkeypatch.setattr(ort, "get_ep_devices", lambda: listed)
    monkeypatch.setattr(ort, "register_execution_provider_library", lambda name, path: listed.extend(module.gpus))
    monkeypatch.setattr(ort, "SessionOptions", Options)
    return module


@pytest.fixture
def model(tmp_path):
    import onnx

    onnx.save(conv_model(), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def test_the_model_runs_on_the_first_gpu_and_nothing_on_the_cpu(provider, model):
    with OnnxRuntimeRunner(model) as runner:
        (options,) = Options.made
        assert [device.number for device in options.devices] == [0]
        assert options.entries == {"session.disable_cpu_ep_fallback": "1"}
        sample = {spec.name: np.ones(spec.shape, spec.dtype) for spec in runner.example_inputs()}
        outputs = runner.run(sample)
        times = runner.time(sample, warm_up=1, runs=3)
        assert runner.profile(sample, runs=1) == ()
    assert tuple(outputs) == runner.outputs
    reference = ort.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    assert np.array_equal(outputs[runner.outputs[0]], reference.run(None, sample)[0])
    assert len(times) == 3
    assert min(times) > 0
    assert runner.clock == "host"


def test_without_a_gpu_that_it_takes_nothing_runs(provider, model):
    provider.gpus.clear()
    with pytest.raises(CapabilityError, match="cannot use a GPU"):
        OnnxRuntimeRunner(model)


def test_a_library_that_does_not_load_is_told(provider, model, monkeypatch):
    def fail(*_: object):
        raise RuntimeError("libcuda.so.1: cannot open shared object file\nmore")

    monkeypatch.setattr(ort, "register_execution_provider_library", fail)
    with pytest.raises(
        CapabilityError, match=r"cannot load the provider: libcuda.so.1: cannot open shared object file$"
    ):
        OnnxRuntimeRunner(model)


def test_a_model_that_it_does_not_take_is_a_refusal(provider, tmp_path):
    (tmp_path / "m.onnx").write_bytes(b"no model")
    with pytest.raises(GateError, match=r"the provider cannot load .*m\.onnx"):
        OnnxRuntimeRunner(tmp_path / "m.onnx")
    with pytest.raises(ModelError, match=r"absent\.onnx: no such file"):
        OnnxRuntimeRunner(tmp_path / "absent.onnx")


def test_a_run_that_fails_is_an_error(provider, model):
    with OnnxRuntimeRunner(model) as runner, pytest.raises(GateError, match="does not run on the GPU"):
        runner.run({})


def test_open_shapes_need_a_sample(provider, tmp_path):
    import onnx

    proto = conv_model()
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
    onnx.save(proto, tmp_path / "m.onnx")
    with (
        OnnxRuntimeRunner(tmp_path / "m.onnx") as runner,
        pytest.raises(UsageError, match=r"\[batch, .* has dynamic dimensions"),
    ):
        runner.example_inputs()
