"""Run an engine with TensorRT or TensorRT for RTX, with memory and clocks from CUDA."""

import importlib
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

import numpy as np

from qdqtool.engines.gpu.clocks import Cuda
from qdqtool.engines.gpu.runner import Clock, LayerTime
from qdqtool.engines.gpu.tensor_types import EngineTensor, read_tensors
from qdqtool.engines.tensorrt.inspector import UnknownShapeError, read_inspector
from qdqtool.errors import CapabilityError, GateError, ModelError, QdqError, UsageError
from qdqtool.numerics.dtypes import Array
from qdqtool.samples.signature import InputSpec

_QUIET = frozenset({"VERBOSE", "INFO", "WARNING"})
Reserve = Callable[[str, int], int]
"""Returns the address of GPU memory for an output, from its name and its size in bytes."""

# The classes of TensorRT are known only when it is imported. A subclass calls the constructor of its base itself:
# pybind11 refuses an object whose base was not initialized.


def new_log(trt: Any) -> Any:
    """Return a logger that prints nothing and keeps the last error in ``last``, which is empty at first."""

    class Log(trt.ILogger):  # type: ignore[misc]
        def __init__(self) -> None:
            trt.ILogger.__init__(self)
            self.last = ""

        def log(self, severity: Any, msg: str) -> None:
            if severity.name not in _QUIET:
                self.last = msg

    return Log()


def new_profiler(trt: Any) -> Any:
    """Return a profiler that adds up the milliseconds of each layer in ``times``, in the order of the first run."""

    class Profiler(trt.IProfiler):  # type: ignore[misc]
        def __init__(self) -> None:
            trt.IProfiler.__init__(self)
            self.times: Counter[str] = Counter()

        def report_layer_time(self, layer_name: str, ms: float) -> None:
            self.times[layer_name] += ms  # type: ignore[assignment]  # Counter is typed for integers

    return Profiler()


def new_allocator(trt: Any, reserve: Reserve) -> Any:
    """Return an allocator for outputs whose shapes are known only after a run.

    After a run, the attribute ``shapes`` has these shapes by name. The attribute ``error`` is the reason why memory was
    missing, or None.
    """

    class Allocator(trt.IOutputAllocator):  # type: ignore[misc]
        def __init__(self) -> None:
            trt.IOutputAllocator.__init__(self)
            self.shapes: dict[str, tuple[int, ...]] = {}
            self.error: CapabilityError | None = None

        def reallocate_output(self, tensor_name: str, memory: Any, size: int, alignment: int) -> int:
            # Memory from cudaMalloc is aligned to 256 bytes, more than TensorRT needs.
            del memory, alignment
            # The caller is C++ code, which an exception must not reach. Address 0 signals a failure.
            try:
                return reserve(tensor_name, size)
            except CapabilityError as error:
                self.error = error
                return 0

        def reallocate_output_async(self, tensor_name: str, memory: Any, size: int, alignment: int, stream: Any) -> int:
            del stream
            return self.reallocate_output(tensor_name, memory, size, alignment)

        def notify_shape(self, tensor_name: str, shape: Any) -> None:
            self.shapes[tensor_name] = tuple(shape)

    return Allocator()


_MODULES = {"tensorrt": "tensorrt", "tensorrt-rtx": "tensorrt_rtx"}


class TensorRTRunner:
    """An engine of TensorRT or TensorRT for RTX as a :class:`~qdqtool.engines.gpu.runner.Runner`.

    Args:
        path: The engine.
        library: ``tensorrt`` or ``tensorrt-rtx``.

    Raises:
        ModelError: The file cannot be read, or the library does not accept it.
        CapabilityError: CUDA fails, or an input or output has a type or layout that cannot be run.
    """

    clock: Clock = "gpu"

    def __init__(self, path: Path, library: str) -> None:
        self.library = library
        self._trt: Any = importlib.import_module(_MODULES[library])
        self.version = str(self._trt.__version__)
        self._cuda = Cuda()
        self._log = new_log(self._trt)
        self._runtime: Any = self._trt.Runtime(self._log)
        self._engine: Any = self._load(path)
        self._tensors = read_tensors(self._trt, self._engine)
        self.inputs = tuple(tensor.spec for tensor in self._tensors if tensor.is_input)
        self.outputs = tuple(tensor.name for tensor in self._tensors if not tensor.is_input)
        self._memory = _Memory(self._cuda)
        self._allocator = new_allocator(self._trt, self._memory.reserve)
        self._context: Any = self._engine.create_execution_context()
        if self._context is None:
            raise self._failed("the execution context cannot be created")
        self._stream = self._cuda.new_stream()
        self._held: list[Array] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._memory.free()
        self._cuda.destroy_stream(self._stream)
        # A context must be deleted before its engine, and an engine before its runtime.
        self._context = self._engine = self._runtime = None

    def example_inputs(self) -> tuple[InputSpec, ...]:
        """Return the inputs with the shapes that the engine was optimized for."""
        return tuple(_example(tensor) for tensor in self._tensors if tensor.is_input)

    def run(self, sample: Mapping[str, Array]) -> dict[str, Array]:
        """Run one sample."""
        host = self._bind(sample)
        self._enqueue()
        self._cuda.synchronize(self._stream)
        shapes = self._allocator.shapes
        outputs = {each.name: np.empty(shapes[each.name], each.dtype) for each in self._tensors if not each.is_input}
        for name, array in outputs.items():
            if name not in host:
                self._cuda.copy_out(array, self._memory.address(name), self._stream)
        self._cuda.synchronize(self._stream)
        return outputs | host

    def time(self, sample: Mapping[str, Array], *, warm_up: int, runs: int) -> list[float]:
        """Run one sample repeatedly.

        All inferences are added to the stream without waiting, with an event after each. So the GPU does not wait for
        the host between inferences, and the clock of the GPU measures each one.
        """
        self._bind(sample)
        for _ in range(warm_up):
            self._enqueue()
        events = [self._cuda.new_event() for _ in range(runs + 1)]
        try:
            self._cuda.record(events[0], self._stream)
            for event in events[1:]:
                self._enqueue()
                self._cuda.record(event, self._stream)
            self._cuda.synchronize(self._stream)
            return [self._cuda.milliseconds(start, end) for start, end in pairwise(events)]
        finally:
            for event in events:
                self._cuda.destroy_event(event)

    def profile(self, sample: Mapping[str, Array], *, runs: int) -> tuple[LayerTime, ...]:
        """Measure the layers. Later times of this runner would include the cost of the profiler."""
        profiler = new_profiler(self._trt)
        self._context.profiler = profiler
        self._bind(sample)
        for _ in range(runs):
            self._enqueue()
            self._cuda.synchronize(self._stream)
        nodes = self._nodes()
        return tuple(LayerTime(name, nodes.get(name, ()), total / runs) for name, total in profiler.times.items())

    def _load(self, path: Path) -> Any:
        try:
            content = path.read_bytes()
        except OSError as error:
            raise ModelError(f"{path} cannot be read: {error.strerror}") from None
        engine = self._runtime.deserialize_cuda_engine(content)
        if engine is None:
            reason = self._log.last or "it does not say why"
            raise ModelError(
                f"{self.library} {self.version} cannot load {path} on this GPU: {reason}",
                hint="an engine needs the library version and a GPU that it was built for; build it "
                "here: `qdqtool build MODEL -o ENGINE`",
            )
        return engine

    def _failed(self, what: str) -> QdqError:
        return self._allocator.error or GateError(f"{what}: {self._log.last or f'{self.library} does not say why'}")

    def _bind(self, sample: Mapping[str, Array]) -> dict[str, Array]:
        """Copy the inputs to the GPU and set the address of each tensor; return the outputs in host memory."""
        self._held = []
        for tensor in self._tensors:
            if tensor.is_input:
                tensor.require(sample[tensor.name])
                self._bind_input(tensor, np.asarray(sample[tensor.name], tensor.dtype, order="C"))
        missing = self._context.infer_shapes()
        if missing:
            raise self._failed(f"the shapes of {', '.join(missing)} are not known")
        return {
            tensor.name: array
            for tensor in self._tensors
            if not tensor.is_input and (array := self._bind_output(tensor)) is not None
        }

    def _bind_input(self, tensor: EngineTensor, array: Array) -> None:
        # The copy is asynchronous, and TensorRT reads inputs on the host while it runs.
        self._held.append(array)
        if not self._context.set_input_shape(tensor.name, array.shape):
            raise self._failed(f"the engine refuses shape {array.shape} for input '{tensor.name}'")
        if tensor.on_host:
            self._set_address(tensor.name, array.ctypes.data)
            return
        address = self._memory.reserve(tensor.name, array.nbytes)
        self._cuda.copy_in(address, array, self._stream)
        self._set_address(tensor.name, address)

    def _bind_output(self, tensor: EngineTensor) -> Array | None:
        shape = tuple(self._context.get_tensor_shape(tensor.name))
        if min(shape, default=0) < 0:
            # Only the run shows the size of the output, such as that of a NonMaxSuppression.
            if not self._context.set_output_allocator(tensor.name, self._allocator):
                raise self._failed(f"no memory can be allocated for output '{tensor.name}'")
            return None
        self._allocator.shapes[tensor.name] = shape
        array = np.empty(shape, tensor.dtype)
        if tensor.on_host:
            self._set_address(tensor.name, array.ctypes.data)
            return array
        self._set_address(tensor.name, self._memory.reserve(tensor.name, array.nbytes))
        return None

    def _set_address(self, name: str, address: int) -> None:
        if not self._context.set_tensor_address(name, address):
            raise self._failed(f"'{name}' cannot be given an address")

    def _enqueue(self) -> None:
        if not self._context.execute_async_v3(int(self._stream)):
            raise self._failed("the engine does not run")

    def _nodes(self) -> dict[str, tuple[str, ...]]:
        inspector = self._engine.create_engine_inspector()
        text = str(inspector.get_engine_information(self._trt.LayerInformationFormat.JSON))
        try:
            return {kernel.name: kernel.nodes for kernel in read_inspector(text)}
        except UnknownShapeError:
            # Layers are then compared by their names.
            return {}


class _Memory:
    """GPU memory for each tensor, which grows with the tensor."""

    def __init__(self, cuda: Cuda) -> None:
        self._cuda = cuda
        self._places: dict[str, tuple[int, int]] = {}

    def reserve(self, name: str, size: int) -> int:
        address, capacity = self._places.get(name, (0, -1))
        if capacity < size:
            if address:
                del self._places[name]
                self._cuda.free(address)
            address = self._cuda.allocate(size)
            self._places[name] = (address, size)
        return address

    def address(self, name: str) -> int:
        return self._places[name][0]

    def free(self) -> None:
        while self._places:
            _, (address, _) = self._places.popitem()
            self._cuda.free(address)


def _example(tensor: EngineTensor) -> InputSpec:
    if tensor.decides_shapes:
        raise UsageError(
            f"the values of input '{tensor.name}' decide shapes, so random values cannot be used",
            hint="give samples: `--data DATA`",
        )
    assert tensor.range is not None
    return InputSpec(tensor.name, tensor.spec.dtype, tensor.range.opt)
