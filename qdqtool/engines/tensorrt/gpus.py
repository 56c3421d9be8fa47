"""List the CUDA devices of this machine through the driver library, without any CUDA package."""

import ctypes
import sys
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One CUDA device: its name and compute capability, such as ``8.9``.

    Attributes:
        name: Its name.
        compute_capability: Its compute capability, such as ``8.9``.
    """

    name: str
    compute_capability: str


def find_gpus() -> tuple[tuple[Gpu, ...], str]:
    """Return the CUDA devices that the driver lists, and the reason in words where there are none."""
    try:
        cuda = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return (), "no CUDA driver (libcuda is absent)"
    count = ctypes.c_int()
    if cuda.cuInit(0) != 0 or cuda.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return (), "a CUDA driver is there, but it finds no usable device"
    return tuple(_gpu(cuda, index) for index in range(count.value)), "" if count.value else "the driver lists no device"


def _gpu(cuda: ctypes.CDLL, index: int) -> Gpu:
    # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR of the CUDA driver API.
    major, minor = 75, 76
    device, value, name = ctypes.c_int(), ctypes.c_int(), ctypes.create_string_buffer(128)
    cuda.cuDeviceGet(ctypes.byref(device), index)
    cuda.cuDeviceGetName(name, len(name), device)
    numbers = []
    for attribute in (major, minor):
        cuda.cuDeviceGetAttribute(ctypes.byref(value), attribute, device)
        numbers.append(str(value.value))
    return Gpu(name=name.value.decode(errors="replace"), compute_capability=".".join(numbers))
