"""A pretended GPU in the memory of the host: CUDA and TensorRT as far as the runners ask of them.

``tests/engines/gpu/test_contract.py`` holds the same calls against the real packages. An engine file holds the name of
a :class:`Network`, which NumPy computes. Time passes only while a network runs.
"""

import ctypes
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from types import SimpleNamespace
from typing import Any

import numpy as np

TYPES = {"FLOAT": np.float32, "HALF": np.float16, "INT64": np.int64, "BOOL": np.bool_}
SUCCESS = SimpleNamespace(name="cudaSuccess")
OUT_OF_MEMORY = SimpleNamespace(name="cudaErrorMemoryAllocation")


@dataclass
class Network:
    """What an engine computes.

    Attributes:
        inputs: Type and shape by name; a dynamic extent is -1.
        outputs: The same; -1 where only the values tell.
        compute: The outputs of inputs.
        ranges: Smallest, best and largest shape of each dynamic input.
        layers: Milliseconds by layer.
        nodes: ONNX nodes by layer, as the inspector tells them.
        on_host: Tensors in the memory of the host.
        layouts: Those with another layout than row by row.
        fails: Whether it does not run.
    """

    inputs: Mapping[str, tuple[str, tuple[int, ...]]]
    outputs: Mapping[str, tuple[str, tuple[int, ...]]]
    compute: Callable[..., Mapping[str, np.ndarray]]
    ranges: Mapping[str, tuple[tuple[int, ...], ...]] = field(default_factory=dict)
    layers: Mapping[str, float] = field(default_factory=lambda: {"layer": 1.0})
    nodes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    on_host: tuple[str, ...] = ()
    layouts: Mapping[str, str] = field(default_factory=dict)
    fails: bool = False

    @property
    def tensors(self) -> Mapping[str, tuple[str, tuple[int, ...]]]:
        return {**self.inputs, **self.outputs}


class Machine:
    """The GPU: memory, time, and the two modules."""

    def __init__(self, networks: Mapping[str, Network]) -> None:
        self.networks = networks
        self.memory: dict[int, Any] = {}
        self.most = float("inf")
        self.now = 0.0
        self.streams: set[int] = set()
        self.events: dict[int, float] = {}
        self.numbers = count(1)
        self.cudart = SimpleNamespace(
            cudaError_t=SimpleNamespace(cudaSuccess=SUCCESS),
            cudaMemcpyKind=SimpleNamespace(cudaMemcpyHostToDevice=1, cudaMemcpyDeviceToHost=2),
            cudaGetErrorString=lambda status: (SUCCESS, b"out of memory"),
            cudaDeviceGetPCIBusId=lambda length, device: (SUCCESS, b"0000:01:00.0\0"),
            **{name: getattr(self, name) for name in dir(self) if name.startswith("cuda")},
        )
        self.trt = make_trt(self)

    def cudaMalloc(self, size: int) -> tuple[Any, ...]:  # noqa: N802
        if size > self.most:
            return OUT_OF_MEMORY, None
        buffer = ctypes.create_string_buffer(b"\xaa" * size, size)
        self.memory[ctypes.addressof(buffer)] = buffer
        return SUCCESS, ctypes.addressof(buffer)

    def cudaFree(self, address: int) -> tuple[Any, ...]:  # noqa: N802
        del self.memory[address]
        return (SUCCESS,)

    def cudaMemcpyAsync(self, target: int, origin: int, size: int, kind: int, stream: int) -> tuple[Any, ...]:  # noqa: N802
        place = target if kind == 1 else origin
        assert stream in self.streams
        assert size <= len(self.memory[place])
        ctypes.memmove(target, origin, size)
        return (SUCCESS,)

    def cudaStreamCreate(self) -> tuple[Any, ...]:  # noqa: N802
        self.streams.add(stream := next(self.numbers))
        return SUCCESS, stream

    def cudaStreamSynchronize(self, stream: int) -> tuple[Any, ...]:  # noqa: N802
        assert stream in self.streams
        return (SUCCESS,)

    def cudaStreamDestroy(self, stream: int) -> tuple[Any, ...]:  # noqa: N802
        self.streams.remove(stream)
        return (SUCCESS,)

    def cudaEventCreate(self) -> tuple[Any, ...]:  # noqa: N802
        self.events[event := next(self.numbers)] = float("nan")
        return SUCCESS, event

    def cudaEventRecord(self, event: int, stream: int) -> tuple[Any, ...]:  # noqa: N802
        assert stream in self.streams
        self.events[event] = self.now
        return (SUCCESS,)

    def cudaEventElapsedTime(self, start: int, end: int) -> tuple[Any, ...]:  # noqa: N802
        return SUCCESS, self.events[end] - self.events[start]

    def cudaEventDestroy(self, event: int) -> tuple[Any, ...]:  # noqa: N802
        del self.events[event]
        return (SUCCESS,)


class _Base:
    """A class of TensorRT that users derive from: its constructor must be called."""

    def __init__(self) -> None:
        self.initialized = True


class Engine:
    def __init__(self, machine: Machine, network: Network) -> None:
        self.machine, self.network = machine, network
        self.num_io_tensors = len(network.tensors)

    def get_tensor_name(self, index: int) -> str:
        return list(self.network.tensors)[index]

    def get_tensor_mode(self, name: str) -> str:
        return "INPUT" if name in self.network.inputs else "OUTPUT"

    def get_tensor_dtype(self, name: str) -> SimpleNamespace:
        return SimpleNamespace(name=self.network.tensors[name][0])

    def get_tensor_shape(self, name: str) -> tuple[int, ...]:
        return self.network.tensors[name][1]

    def get_tensor_format(self, name: str) -> Any:
        layout = self.network.layouts.get(name, "LINEAR")
        return getattr(self.machine.trt.TensorFormat, layout)

    def get_tensor_location(self, name: str) -> str:
        return "HOST" if name in self.network.on_host else "DEVICE"

    def is_shape_inference_io(self, name: str) -> bool:
        return name in self.network.on_host

    def get_tensor_profile_shape(self, name: str, profile: int) -> list[tuple[int, ...]]:
        assert profile == 0
        return list(self.network.ranges[name])

    def create_execution_context(self) -> "Context":
        return Context(self.machine, self.network)

    def create_engine_inspector(self) -> SimpleNamespace:
        layers = [
            {
                "Name": name,
                "LayerType": "kgen",
                "Inputs": [],
                "Outputs": [],
                "Metadata": "\x1f".join(f"[ONNX Layer: {node}]" for node in self.network.nodes.get(name, ())),
            }
            for name in self.network.layers
        ]
        return SimpleNamespace(get_engine_information=lambda kind: json.dumps({"Layers": layers}))


class Context:
    def __init__(self, machine: Machine, network: Network) -> None:
        self.machine, self.network = machine, network
        self.profiler: Any = None
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.addresses: dict[str, int] = {}
        self.allocators: dict[str, Any] = {}

    def set_input_shape(self, name: str, shape: tuple[int, ...]) -> bool:
        self.shapes[name] = shape
        return True

    def set_tensor_address(self, name: str, address: int) -> bool:
        self.addresses[name] = address
        return True

    def set_output_allocator(self, name: str, allocator: Any) -> bool:
        assert allocator.initialized
        self.allocators[name] = allocator
        return True

    def infer_shapes(self) -> list[str]:
        return [name for name in self.network.inputs if name not in self.addresses]

    def get_tensor_shape(self, name: str) -> tuple[int, ...]:
        declared = self.network.outputs[name][1]
        return declared if -1 in declared else self._results()[name].shape

    def execute_async_v3(self, stream: int) -> bool:
        assert stream in self.machine.streams
        if self.network.fails:
            return False
        for name, array in self._results().items():
            address = self._address(name, array, stream)
            if not address:
                return False
            ctypes.memmove(address, array.ctypes.data, array.nbytes)
        for layer, milliseconds in self.network.layers.items():
            self.machine.now += milliseconds
            if self.profiler is not None:
                self.profiler.report_layer_time(layer, milliseconds)
        return True

    def _address(self, name: str, array: np.ndarray, stream: int) -> int:
        if name not in self.allocators:
            return self.addresses[name]
        allocator = self.allocators[name]
        address = allocator.reallocate_output_async(name, None, array.nbytes, 256, stream)
        allocator.notify_shape(name, array.shape)
        return address

    def _results(self) -> Mapping[str, np.ndarray]:
        fed = {name: self._array(name) for name in self.network.inputs}
        results = self.network.compute(**fed)
        return {
            name: np.ascontiguousarray(results[name], TYPES[kind]).reshape(results[name].shape)
            for name, (kind, _) in self.network.outputs.items()
        }

    def _array(self, name: str) -> np.ndarray:
        dtype = np.dtype(TYPES[self.network.inputs[name][0]])
        size = int(np.prod(self.shapes[name], dtype=int)) * dtype.itemsize
        return np.frombuffer(ctypes.string_at(self.addresses[name], size), dtype).reshape(self.shapes[name])


def make_trt(machine: Machine) -> SimpleNamespace:
    def runtime(log: Any) -> SimpleNamespace:
        def load(content: bytes) -> Engine | None:
            network = machine.networks.get(content.removeprefix(b"vtrt").decode(errors="replace"))
            if network is None:
                log.log(SimpleNamespace(name="INFO"), "reading")
                log.log(SimpleNamespace(name="ERROR"), "the magic tag does not match")
                log.log(SimpleNamespace(name="WARNING"), "giving up")
            return Engine(machine, network) if network is not None else None

        return SimpleNamespace(deserialize_cuda_engine=load)

    return SimpleNamespace(
        __version__="1.7.1",
        ILogger=_Base,
        IProfiler=_Base,
        IOutputAllocator=_Base,
        Runtime=runtime,
        TensorIOMode=SimpleNamespace(INPUT="INPUT", OUTPUT="OUTPUT"),
        TensorLocation=SimpleNamespace(HOST="HOST", DEVICE="DEVICE"),
        TensorFormat=SimpleNamespace(LINEAR=SimpleNamespace(name="LINEAR"), CHW4=SimpleNamespace(name="CHW4")),
        LayerInformationFormat=SimpleNamespace(JSON="JSON"),
    )


def install(monkeypatch: Any, networks: Mapping[str, Network]) -> Machine:
    """Put the modules of a new machine in place of the real ones."""
    machine = Machine(networks)
    bindings = SimpleNamespace(runtime=machine.cudart)
    monkeypatch.setitem(__import__("sys").modules, "cuda", SimpleNamespace(bindings=bindings))
    monkeypatch.setitem(__import__("sys").modules, "cuda.bindings", bindings)
    monkeypatch.setitem(__import__("sys").modules, "cuda.bindings.runtime", machine.cudart)
    monkeypatch.setitem(__import__("sys").modules, "tensorrt_rtx", machine.trt)
    return machine
