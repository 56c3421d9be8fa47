"""What TensorRT calls while an engine runs: a log, a profiler, and an allocator of outputs.

Each is a subclass of a class of TensorRT, which is known only when it is imported. A subclass must call the
constructor of its base itself: pybind11 refuses an object whose base was not initialized.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

from qdqtool.errors import CapabilityError

_QUIET = frozenset({"VERBOSE", "INFO", "WARNING"})
Reserve = Callable[[str, int], int]
"""Gives the address of memory on the GPU for an output, by its name and its size in bytes."""


def new_log(trt: Any) -> Any:
    """Return a logger that keeps the last error in ``last``, empty so far, and prints nothing."""

    class Log(trt.ILogger):  # type: ignore[misc]  # the base is known when it runs
        def __init__(self) -> None:
            trt.ILogger.__init__(self)
            self.last = ""

        def log(self, severity: Any, msg: str) -> None:
            if severity.name not in _QUIET:
                self.last = msg

    return Log()


def new_profiler(trt: Any) -> Any:
    """Return a profiler that adds up the milliseconds of each layer in ``times``, in the order of the first run."""

    class Profiler(trt.IProfiler):  # type: ignore[misc]  # the base is known when it runs
        def __init__(self) -> None:
            trt.IProfiler.__init__(self)
            self.times: Counter[str] = Counter()

        def report_layer_time(self, layer_name: str, ms: float) -> None:
            self.times[layer_name] += ms  # type: ignore[assignment]  # Counter is typed for integers

    return Profiler()


def new_allocator(trt: Any, reserve: Reserve) -> Any:
    """Return an allocator for outputs whose shapes are known only when the engine has run.

    Args:
        trt: The TensorRT module.
        reserve: Asked for memory.

    Returns:
        An object whose ``shapes`` has the shape of each output after a run, by name, and whose ``error`` is the reason
        why there was no memory; None where there was.
    """

    class Allocator(trt.IOutputAllocator):  # type: ignore[misc]  # the base is known when it runs
        def __init__(self) -> None:
            trt.IOutputAllocator.__init__(self)
            self.shapes: dict[str, tuple[int, ...]] = {}
            self.error: CapabilityError | None = None

        def reallocate_output(self, tensor_name: str, memory: Any, size: int, alignment: int) -> int:
            # Memory of cudaMalloc is aligned to 256 bytes, more than TensorRT asks for.
            del memory, alignment
            # The caller is C++ code, which an exception must not reach. It takes address 0 as a failure.
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
