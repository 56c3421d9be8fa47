"""List the CUDA devices of this machine through the driver library, and find packages; nothing heavy is imported."""

import ctypes
import importlib.util
import sys
from dataclasses import dataclass

from qdqtool.errors import UsageError
from qdqtool.models import targets

# The oldest GPU of the default. 7.5 must be requested: the RTX builder refuses int4, FP8, FP4 and bfloat16 for SM75,
# and a MatMul with float32 output ("FP32 GEMM is not supported").
_ALWAYS = 80


def parse(text: str) -> tuple[str, ...]:
    """Parse ``8.6,8.9`` or ``sm86,sm89`` to ``("8.6", "8.9")``, sorted and without repetitions.

    Raises:
        UsageError: A part of the text is not a compute capability, or the text has no parts.
    """
    found = targets.capabilities(filter(None, (word.strip() for word in text.split(","))))
    if not found:
        raise UsageError("--compute-capabilities is empty", hint="write them like 8.6,8.9")
    return tuple(map(targets.capability_name, found))


def number(capability: str) -> int:
    """Return a compute capability as a number: 86 for ``8.6``."""
    return int(capability.replace(".", ""))


def needed(target: str, types: frozenset[str]) -> dict[str, int]:
    """Return the lowest compute capability (89 for 8.9) for each type that the oldest default GPU cannot compute."""
    first = targets.get(target).min_compute_capability
    return {kind: first[kind] for kind in sorted(types) if first.get(kind, 0) > _ALWAYS}


def default(target: str, known: tuple[str, ...], types: frozenset[str]) -> tuple[str, ...]:
    """Return the compute capabilities of ``known`` from 8.0 on that can compute all ``types``."""
    least = max([_ALWAYS, *needed(target, types).values()])
    return tuple(name for name in known if number(name) >= least)


def check(target: str, asked: tuple[str, ...], known: tuple[str, ...], types: frozenset[str]) -> None:
    """Check that the builder knows every requested compute capability and that each can compute ``types``.

    Raises:
        UsageError: A compute capability does not fit; the message names it, and the hint names legal ones.
    """
    for name in asked:
        there = "TensorRT builds for this GPU, on a machine that has it"
        targets.get(target).require_buildable(number(name), hint=there)
    for kind, first in targets.get(target).min_compute_capability.items():
        bad = [name for name in asked if number(name) < first] if kind in types else []
        if bad:
            able = ",".join(name for name in known if number(name) >= first)
            raise UsageError(
                f"the model has type {kind}, which compute capability {bad[0]} cannot compute",
                hint=f"use `--compute-capabilities {able}`, or leave the option out",
            )


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
    """Return the CUDA devices that the driver lists, and the reason in words if there are none."""
    try:
        cuda = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return (), "no CUDA driver (libcuda is absent)"
    count = ctypes.c_int()
    if cuda.cuInit(0) != 0 or cuda.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return (), "a CUDA driver is installed, but it finds no usable device"
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


def is_installed(module: str) -> bool:
    """Whether a module can be found; its parent package is imported, the module itself is not."""
    try:
        found = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return False
    # A namespace package (a folder of that name without __init__.py) is found too, but has no origin.
    return found is not None and found.origin is not None
