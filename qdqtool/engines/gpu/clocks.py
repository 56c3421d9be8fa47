"""The clocks of the GPU under load, read with NVML if the package nvidia-ml-py is installed.

Each function of cuda-python returns a tuple of a status and its results. This module raises an error for a status other
than success.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

from qdqtool.errors import CapabilityError
from qdqtool.numerics.dtypes import Array

_BUS_ID_LENGTH = 13
"""Characters of a PCI bus id with its final zero, as the documentation of cudaDeviceGetPCIBusId says."""


class Cuda:
    """The CUDA runtime on the first GPU, which the variable ``CUDA_VISIBLE_DEVICES`` chooses.

    Every method raises a :class:`~qdqtool.errors.CapabilityError` if CUDA reports a failure.

    Raises:
        ImportError: cuda-python is not installed.
    """

    def __init__(self) -> None:
        from cuda.bindings import runtime

        self._cudart: Any = runtime

    def allocate(self, size: int) -> int:
        """Return the address of new memory on the GPU, of ``size`` bytes."""
        # cudaMalloc returns a null pointer for 0 bytes, which means to TensorRT that a tensor has no address.
        return int(self._call(self._cudart.cudaMalloc, max(size, 1)))

    def free(self, address: int) -> None:
        """Free memory that :meth:`allocate` returned."""
        self._call(self._cudart.cudaFree, address)

    def copy_in(self, address: int, array: Array, stream: Any) -> None:
        """Copy a contiguous array to the GPU; it must live until the stream is synchronized."""
        kind = self._cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
        self._call(self._cudart.cudaMemcpyAsync, address, array.ctypes.data, array.nbytes, kind, stream)

    def copy_out(self, array: Array, address: int, stream: Any) -> None:
        """Copy memory of the GPU to a contiguous array, which is filled when the stream is synchronized."""
        kind = self._cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost
        self._call(self._cudart.cudaMemcpyAsync, array.ctypes.data, address, array.nbytes, kind, stream)

    def new_stream(self) -> Any:
        """Return a new stream; ``int(stream)`` is the handle for TensorRT."""
        return self._call(self._cudart.cudaStreamCreate)

    def synchronize(self, stream: Any) -> None:
        """Wait until all work of a stream is done."""
        self._call(self._cudart.cudaStreamSynchronize, stream)

    def destroy_stream(self, stream: Any) -> None:
        """Destroy a stream."""
        self._call(self._cudart.cudaStreamDestroy, stream)

    def new_event(self) -> Any:
        """Return a new event that records the time when the stream reaches it."""
        return self._call(self._cudart.cudaEventCreate)

    def record(self, event: Any, stream: Any) -> None:
        """Add an event to a stream, after the work that the stream already has."""
        self._call(self._cudart.cudaEventRecord, event, stream)

    def milliseconds(self, start: Any, end: Any) -> float:
        """Return the time between two events that have been reached."""
        return float(self._call(self._cudart.cudaEventElapsedTime, start, end))

    def destroy_event(self, event: Any) -> None:
        """Destroy an event."""
        self._call(self._cudart.cudaEventDestroy, event)

    def bus_id(self) -> bytes:
        """Return the PCI bus id of the GPU, such as ``0000:01:00.0``, which NVML uses too."""
        found = self._call(self._cudart.cudaDeviceGetPCIBusId, _BUS_ID_LENGTH, 0)
        return bytes(found).rstrip(b"\0")

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        status, *values = function(*arguments)
        if status != self._cudart.cudaError_t.cudaSuccess:
            _, text = self._cudart.cudaGetErrorString(status)
            raise CapabilityError(
                f"CUDA fails: {text.decode(errors='replace')} ({function.__name__}, {status.name})",
                hint="`nvidia-smi` shows the driver, its CUDA version and the free memory",
            )
        return values[0] if values else None


@dataclass(frozen=True, slots=True)
class Clocks:
    """The clocks of the GPU at one moment, in MHz: of its processors and of its memory.

    Attributes:
        sm: Clock of the processors, in MHz.
        memory: Clock of the memory, in MHz.
    """

    sm: int
    memory: int


class ClockMeter:
    """Reads the clocks of the GPU on which CUDA runs. A context manager.

    Attributes:
        reason: Why the clocks are unknown; empty if they are known.
    """

    def __init__(self) -> None:
        self.reason = ""
        self._nvml: Any = None
        self._device: Any = None

    def __enter__(self) -> Self:
        try:
            import pynvml

            cuda = Cuda()
        except ImportError as error:
            self.reason = f"nvidia-ml-py or cuda-python is not installed ({error})"
            return self
        try:
            pynvml.nvmlInit()
            self._nvml = pynvml
            # NVML and CUDA count GPUs in different orders, and NVML ignores CUDA_VISIBLE_DEVICES.
            self._device = pynvml.nvmlDeviceGetHandleByPciBusId(cuda.bus_id())
        except (pynvml.NVMLError, CapabilityError) as error:
            self.reason = str(error)
        return self

    def __exit__(self, *_: object) -> None:
        if self._nvml is not None:
            self._nvml.nvmlShutdown()

    def read(self) -> Clocks | None:
        """Return the current clocks, or None if they are unknown."""
        if self._device is None:
            return None
        try:
            sm = self._nvml.nvmlDeviceGetClockInfo(self._device, self._nvml.NVML_CLOCK_SM)
            memory = self._nvml.nvmlDeviceGetClockInfo(self._device, self._nvml.NVML_CLOCK_MEM)
        except self._nvml.NVMLError as error:
            self.reason = str(error)
            return None
        return Clocks(int(sm), int(memory))
