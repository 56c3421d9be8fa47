"""Running an engine on a GPU with nothing but TensorRT and the CUDA driver: memory, copies and clocks by ctypes.

Never run so far: written on machines without a GPU, against the documentation of both.
"""

import contextlib
import ctypes
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np

_LIBRARY = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
_MAJOR, _MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_*


class CudaError(RuntimeError):
    """A call of the driver failed."""


class Driver:
    """The CUDA driver with the primary context of the first GPU, which TensorRT uses too.

    Raises:
        CudaError: There is no driver or no GPU.
    """

    def __init__(self) -> None:
        try:
            self._cuda = ctypes.CDLL(_LIBRARY)
        except OSError as error:
            raise CudaError(f"no CUDA driver: {error}") from None
        self.call("cuInit", 0)
        count = ctypes.c_int()
        self.call("cuDeviceGetCount", ctypes.byref(count))
        if not count.value:
            raise CudaError("no NVIDIA GPU")
        self._device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(self._device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self._device)
        self.call("cuCtxSetCurrent", context)

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function of the driver; anything but success is an error."""
        code = getattr(self._cuda, name)(*arguments)
        if code:
            raise CudaError(f"{name} failed with {code}")

    def capability(self) -> str:
        """Compute capability of the GPU, as ``8.9``."""
        numbers = []
        for attribute in (_MAJOR, _MINOR):
            number = ctypes.c_int()
            self.call("cuDeviceGetAttribute", ctypes.byref(number), attribute, self._device)
            numbers.append(number.value)
        return ".".join(map(str, numbers))


class Runner:
    """An engine that is loaded and can be run. A context manager.

    Args:
        trt: The TensorRT module that built it.
        engine: The file.
        driver: The driver.

    Raises:
        CudaError: The runtime of this machine does not take the engine.
    """

    def __init__(self, trt: Any, engine: Path, driver: Driver) -> None:
        self._trt, self._driver = trt, driver
        self._runtime = trt.Runtime(trt.Logger(trt.Logger.ERROR))
        self.engine = self._runtime.deserialize_cuda_engine(engine.read_bytes())
        if self.engine is None:
            raise CudaError(f"the runtime of {trt.__name__} does not deserialize the engine on this GPU")
        self._context = self.engine.create_execution_context()
        self._stream = ctypes.c_void_p()
        driver.call("cuStreamCreate", ctypes.byref(self._stream), 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._driver.call("cuStreamDestroy_v2", self._stream)

    def run(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The outputs for one set of inputs."""
        with self._bound(feeds) as outputs:
            self._enqueue()
            for array, memory in outputs.values():
                self._driver.call("cuMemcpyDtoHAsync_v2", _pointer(array), memory, _size(array), self._stream)
            self._wait()
            return {name: array for name, (array, _) in outputs.items()}

    def milliseconds(self, feeds: Mapping[str, np.ndarray], *, warm_up: int = 20, runs: int = 200) -> float:
        """Mean time of one inference on the GPU; copies are left out."""
        start, end = ctypes.c_void_p(), ctypes.c_void_p()
        for event in (start, end):
            self._driver.call("cuEventCreate", ctypes.byref(event), 0)
        with self._bound(feeds):
            for _ in range(warm_up):
                self._enqueue()
            self._driver.call("cuEventRecord", start, self._stream)
            for _ in range(runs):
                self._enqueue()
            self._driver.call("cuEventRecord", end, self._stream)
            self._wait()
        elapsed = ctypes.c_float()
        self._driver.call("cuEventElapsedTime", ctypes.byref(elapsed), start, end)
        for event in (start, end):
            self._driver.call("cuEventDestroy_v2", event)
        return elapsed.value / runs

    @contextlib.contextmanager
    def _bound(self, feeds: Mapping[str, np.ndarray]) -> Iterator[dict[str, tuple[np.ndarray, ctypes.c_uint64]]]:
        """Every tensor in memory of its own; the outputs as empty arrays with their place on the GPU."""
        names = [self.engine.get_tensor_name(index) for index in range(self.engine.num_io_tensors)]
        inputs = [n for n in names if self.engine.get_tensor_mode(n) == self._trt.TensorIOMode.INPUT]
        for name in inputs:
            self._context.set_input_shape(name, feeds[name].shape)
        arrays = {name: np.ascontiguousarray(feeds[name]) for name in inputs}
        arrays |= {name: self._empty(name) for name in names if name not in inputs}
        with contextlib.ExitStack() as stack:
            places = {name: stack.enter_context(self._memory(_size(array))) for name, array in arrays.items()}
            for name, place in places.items():
                if name in inputs:
                    self._driver.call("cuMemcpyHtoD_v2", place, _pointer(arrays[name]), _size(arrays[name]))
                self._context.set_tensor_address(name, place.value)
            yield {name: (arrays[name], places[name]) for name in names if name not in inputs}

    def _empty(self, name: str) -> np.ndarray:
        dtype = self._trt.nptype(self.engine.get_tensor_dtype(name))
        return np.empty(tuple(self._context.get_tensor_shape(name)), dtype)

    @contextlib.contextmanager
    def _memory(self, size: ctypes.c_size_t) -> Iterator[ctypes.c_uint64]:
        place = ctypes.c_uint64()
        self._driver.call("cuMemAlloc_v2", ctypes.byref(place), size)
        try:
            yield place
        finally:
            self._driver.call("cuMemFree_v2", place)

    def _enqueue(self) -> None:
        if not self._context.execute_async_v3(self._stream.value):
            raise CudaError("the engine does not run")

    def _wait(self) -> None:
        self._driver.call("cuStreamSynchronize", self._stream)


def _pointer(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def _size(array: np.ndarray) -> ctypes.c_size_t:
    return ctypes.c_size_t(max(array.nbytes, 1))
