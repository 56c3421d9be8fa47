"""Describe the processor as far as the system allows; ONNX Runtime chooses kernels by its instruction sets."""

import platform
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")

# Names of instruction sets in /proc/cpuinfo, first x86, then Arm: those that ONNX Runtime (MLAS) chooses kernels by. On
# CPUs without VNNI its u8*s8 kernels can saturate in 16 bits (onnxruntime issues 6004, 16105).
_FEATURES = (
    "avx2",
    "fma",
    "f16c",
    "avx_vnni",
    "avx512f",
    "avx512bw",
    "avx512vl",
    "avx512_vnni",
    "avx512_bf16",
    "avx512_fp16",
    "amx_tile",
    "amx_int8",
    "amx_bf16",
    "asimddp",
    "asimdhp",
    "i8mm",
    "bf16",
    "sve",
)


def cpu_features() -> tuple[str, ...]:
    """Return the instruction sets of this processor that affect the choice of kernels; empty if unknown."""
    flags = set((_cpuinfo("flags") or _cpuinfo("Features")).split())
    return tuple(feature for feature in _FEATURES if feature in flags)


def cpu_name() -> str:
    """Return the processor's name and architecture."""
    name = _cpuinfo("model name") or platform.processor()
    return f"{name} ({platform.machine()})" if name and name != platform.machine() else platform.machine()


def _cpuinfo(key: str) -> str:
    try:
        lines = _CPUINFO.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.partition(":")[0].strip() == key), "")
