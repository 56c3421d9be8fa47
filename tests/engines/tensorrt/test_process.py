"""The child process: crashes, time-outs and refusals end in one clear message, whatever the library does."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from onnx import TensorProto
from support.engine_models import Net, conv, crashing, matmul, recursive, refused, save

from qdqtool.engines.report import InputProfile
from qdqtool.engines.tensorrt import process
from qdqtool.engines.tensorrt.backends.tensorrt import BUILDER as TENSORRT
from qdqtool.engines.tensorrt.backends.tensorrt_rtx import BUILDER as RTX
from qdqtool.engines.tensorrt.builder import BuilderFailedError, BuildRefusedError, EngineRequest
from qdqtool.engines.tensorrt.deployment import DeploymentOptions
from qdqtool.errors import CapabilityError, OutputError, UsageError
from qdqtool.models.graph.io.load import load_model

BUILDER = pytest.mark.builder


def request(model, folder, **options):
    options = {"timeout": 120, **options}
    return EngineRequest(model=load_model(save(model, folder)), engine=folder / "e.engine", **options)


@pytest.fixture
def rtx():
    pytest.importorskip("tensorrt_rtx")
    return RTX


@BUILDER
@pytest.mark.parametrize(("make", "stage"), [(crashing, "building"), (recursive, "parsing the model")])
def test_a_crash_names_the_signal_and_the_stage(rtx, tmp_path, make, stage):
    with pytest.raises(BuilderFailedError, match=f"crashed with SIGSEGV while {stage}"):
        rtx.build(request(make(), tmp_path))


@BUILDER
def test_all_refused_nodes_are_named(rtx, tmp_path):
    with pytest.raises(BuildRefusedError, match=r"refuses node 'bias_d\.DequantizeLinear'.*\(and 3 more\)") as caught:
        rtx.build(request(refused(), tmp_path))
    assert [(refusal.op_type, refusal.reason.split(";")[0]) for refusal in caught.value.refusals] == [
        ("DequantizeLinear", "it dequantizes int32 data, usually a quantized bias"),
        ("QuantizeLinear", "its zero point is not 0"),
        ("DequantizeLinear", "its zero point is not 0"),
        ("Unheard", "TensorRT has no operator and no plugin with this name"),
    ]


@BUILDER
def test_a_refusal_of_the_builder(rtx, tmp_path):
    model = matmul()
    int8_weight = model.graph.node[2].input[0]
    model.graph.node[2].input[0] = "moved"
    identity = model.graph.node.add(op_type="Identity", input=[int8_weight], output=["moved"], name="between")
    model.graph.node.insert(0, identity)
    del model.graph.node[-1]
    with pytest.raises(BuildRefusedError, match="quantized constant 'w' does not feed a DequantizeLinear") as caught:
        rtx.build(request(model, tmp_path))
    assert caught.value.stage == "build"


@BUILDER
def test_the_whole_log_is_kept_when_asked_for_even_of_a_crash(rtx, tmp_path):
    with pytest.raises(BuilderFailedError, match="crashed"):
        rtx.build(request(crashing(), tmp_path, verbose_log=tmp_path / "log.txt"))
    assert "[VERBOSE]" in (tmp_path / "log.txt").read_text(encoding="utf-8")


@BUILDER
def test_a_full_disk_is_an_output_error(rtx, tmp_path):
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    full = EngineRequest(model=load_model(save(conv(), tmp_path)), engine=Path("/dev/full"), timeout=120)
    with pytest.raises(OutputError, match="No space left on device"):
        rtx.build(full)


def fake_module(folder, monkeypatch, name, text):
    (folder / f"{name}.py").write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    monkeypatch.syspath_prepend(str(folder))


def test_a_builder_that_hangs_is_stopped_in_time(tmp_path, monkeypatch):
    fake_module(tmp_path, monkeypatch, "tensorrt", "import time\ntime.sleep(600)\n")
    started = time.monotonic()
    with pytest.raises(BuilderFailedError, match="was stopped after 1 s while starting"):
        TENSORRT.build(request(conv(), tmp_path, timeout=1))
    assert time.monotonic() - started < 30


@pytest.mark.parametrize(
    ("line", "error", "message"),
    [
        ("ImportError('libnvinfer.so.11: cannot open')", CapabilityError, r"cannot be loaded: libnvinfer\.so\.11"),
        ("ValueError('odd')", BuilderFailedError, "stopped while starting: ValueError: odd"),
    ],
)
def test_a_module_that_does_not_load_is_a_missing_capability_and_a_bug_says_its_last_line(
    tmp_path, monkeypatch, line, error, message
):
    fake_module(tmp_path, monkeypatch, "tensorrt", f"raise {line}\n")
    with pytest.raises(error, match=message):
        TENSORRT.build(request(conv(), tmp_path))


NO_GPU = """
__version__ = "11.4"
class ILogger:
    pass
class Builder:
    def __init__(self, log):
        raise TypeError("pybind11::init(): factory function returned nullptr")
"""


def test_tensorrt_without_a_gpu_points_to_the_backend_that_needs_none(tmp_path, monkeypatch):
    fake_module(tmp_path, monkeypatch, "tensorrt", NO_GPU)
    with pytest.raises(CapabilityError, match="finds no NVIDIA GPU") as caught:
        TENSORRT.build(request(conv(), tmp_path))
    assert "--backend tensorrt-rtx" in str(caught.value.hint)


def test_an_absent_package_is_a_missing_capability_with_the_install_line(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(CapabilityError, match=r"TensorRT for RTX is not installed") as caught:
        RTX.build(request(conv(), tmp_path))
    assert "pip install tensorrt-rtx" in str(caught.value.hint)


def test_a_folder_of_that_name_is_no_package(tmp_path, monkeypatch):
    (tmp_path / "tensorrt").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    assert not TENSORRT.is_installed()


def test_modules_in_the_current_folder_are_not_imported_by_the_child(tmp_path, monkeypatch):
    (tmp_path / "json.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "site").mkdir()
    fake_module(tmp_path / "site", monkeypatch, "tensorrt", NO_GPU)
    with pytest.raises(CapabilityError, match="finds no NVIDIA GPU"):
        TENSORRT.build(request(conv(), tmp_path))


def test_the_child_goes_when_its_parent_is_killed(tmp_path):
    (tmp_path / "tensorrt.py").write_text("import time\ntime.sleep(600)\n")
    (tmp_path / "request.json").write_text('{"module": "tensorrt"}')
    code = f"""
import pathlib, sys, time
from qdqtool.engines.tensorrt import process
with process._child(pathlib.Path({str(tmp_path)!r})) as child:
    print(child.pid, flush=True)
    time.sleep(600)
"""
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=environment)
    with parent:
        child = int(parent.stdout.readline())
        time.sleep(0.5)
        parent.kill()
    deadline = time.monotonic() + 20
    while _alive(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _alive(child)


def _alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False


def test_nothing_is_left_in_the_temporary_folder(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    fake_module(tmp_path, monkeypatch, "tensorrt", NO_GPU)
    outcome = process.run("tensorrt", request(conv(), tmp_path), inspect=False, title="T")
    assert outcome.facts["problem"] == "device"
    assert list(tmp_path.glob("qdqtool-build-*")) == []


def int64_input():
    net = Net()
    net.op("Gather", [net.float_weight("w", (16, 8)), "x"], "y")
    model = net.model({"x": (4,)})
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.INT64
    return model


@BUILDER
def test_a_warning_that_matters_is_kept_once(rtx, tmp_path):
    (warning,) = rtx.build(request(int64_input(), tmp_path)).warnings
    assert "must bind int64 data" in warning


@BUILDER
def test_shapes_that_are_too_small_for_a_layer(rtx, tmp_path):
    model = conv(inputs={"x": (1, 16, "h", "w")})
    small, large = (1, 16, 1, 1), (1, 16, 8, 8)
    (warning,) = rtx.build(request(model, tmp_path, profiles=(InputProfile("x", small, large, large),))).warnings
    assert "too small for a layer" in warning
    with pytest.raises(
        BuildRefusedError, match=r"does not work with its OPT shapes: y\.Conv: spatial dimension"
    ) as caught:
        rtx.build(request(model, tmp_path, profiles=(InputProfile("x", small, small, large),)))
    assert "--opt-shapes" in str(caught.value.hint)


WITH_CACHE = """
__version__ = "11.4"
class ILogger:
    pass
class Members:
    __members__ = {}
class BuilderFlag(Members): pass
class MemoryPoolType(Members): pass
class ComputeCapability(Members): pass
class ProfilingVerbosity: DETAILED = 1
class NetworkDefinitionCreationFlag: STRONGLY_TYPED = 0
class Cache(bytes):
    def serialize(self): return bytes(self) + b" and new ones"
class IBuilderConfig:
    def create_timing_cache(self, data): return Cache(data)
    def set_timing_cache(self, cache, ignore): self.cache = cache; return True
    def get_timing_cache(self): return self.cache
class Network:
    num_layers = num_inputs = 0
class Builder:
    def __init__(self, log): pass
    def create_builder_config(self): return IBuilderConfig()
    def create_network(self, flags=0): return Network()
    def build_serialized_network(self, network, config): return b"engine"
class OnnxParser:
    def __init__(self, network, log): pass
    def parse_from_file(self, path): return True
class LayerInformationFormat: JSON = 1
class Runtime:
    def __init__(self, log): pass
    def deserialize_cuda_engine(self, engine): return None
"""


def test_timings_are_handed_to_the_builder_and_brought_back(tmp_path, monkeypatch):
    fake_module(tmp_path, monkeypatch, "tensorrt", WITH_CACHE)
    cache = tmp_path / "t.cache"
    cache.write_bytes(b"timings")
    wanted = DeploymentOptions(timing_cache_file=cache)
    built = TENSORRT.build(request(conv(), tmp_path, deployment=wanted))
    assert built.timing_cache == b"timings and new ones"
    assert cache.read_bytes() == b"timings"
    cache.unlink()
    assert TENSORRT.build(request(conv(), tmp_path, deployment=wanted)).timing_cache == b" and new ones"
    assert TENSORRT.build(request(conv(), tmp_path)).timing_cache is None


def test_an_option_that_the_api_lacks_is_refused_before_anything_is_parsed(tmp_path, monkeypatch):
    fake_module(tmp_path, monkeypatch, "tensorrt", WITH_CACHE.replace("return True", "raise SystemExit('parsed')"))
    with pytest.raises(UsageError, match=r"TensorRT 11\.4 does not support --refit: its API has no BuilderFlag\.REFIT"):
        TENSORRT.build(request(conv(), tmp_path, deployment=DeploymentOptions(refit=True)))
    assert not (tmp_path / "e.engine").exists()


@pytest.mark.parametrize(
    ("body", "stage"),
    [
        ("raise MemoryError\n", "MemoryError while starting"),
        ("import os, sys\nsys.stderr.write('what():  std::bad_alloc')\nos.abort()\n", "std::bad_alloc while starting"),
    ],
)
def test_a_machine_without_memory_is_a_lack_and_no_fault_of_the_model(tmp_path, monkeypatch, body, stage):
    fake_module(tmp_path, monkeypatch, "tensorrt", body)
    with pytest.raises(
        CapabilityError, match=f"TensorRT got no memory from this machine: {stage}; no engine"
    ) as caught:
        TENSORRT.build(request(conv(), tmp_path))
    assert caught.value.exit_code == 4


def test_a_builder_that_waits_for_itself_is_stopped_long_before_the_time_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(process, "STUCK_SECONDS", 1.0)
    fake_module(tmp_path, monkeypatch, "tensorrt", "import time\ntime.sleep(600)\n")
    started = time.monotonic()
    with pytest.raises(BuilderFailedError, match="was stopped after 1 s without processor time while starting"):
        TENSORRT.build(request(conv(), tmp_path))
    assert time.monotonic() - started < 20


def test_a_builder_that_works_is_not_stuck(tmp_path, monkeypatch):
    monkeypatch.setattr(process, "STUCK_SECONDS", 0.4)
    fake_module(
        tmp_path,
        monkeypatch,
        "tensorrt",
        "import time\nend = time.monotonic() + 1.2\nwhile time.monotonic() < end: pass\nraise ImportError('late')\n",
    )
    with pytest.raises(CapabilityError, match="late"):
        TENSORRT.build(request(conv(), tmp_path))
