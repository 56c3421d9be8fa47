"""The clocks of the GPU while it works, from NVML through the package nvidia-ml-py; nothing where that is absent."""

from dataclasses import dataclass
from typing import Any, Self

from qdqtool.engines.gpu.cuda import Cuda
from qdqtool.errors import CapabilityError


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
        reason: Why the clocks are not known; empty where they are.
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
        """Return the clocks now; None where they are not known."""
        if self._device is None:
            return None
        try:
            sm = self._nvml.nvmlDeviceGetClockInfo(self._device, self._nvml.NVML_CLOCK_SM)
            memory = self._nvml.nvmlDeviceGetClockInfo(self._device, self._nvml.NVML_CLOCK_MEM)
        except self._nvml.NVMLError as error:
            self.reason = str(error)
            return None
        return Clocks(int(sm), int(memory))
