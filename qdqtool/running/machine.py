"""Which processor this is, as far as the system tells: some of ONNX Runtime's kernels depend on it."""

import platform
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")

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
    """Instruction sets of this processor that choose between kernels; empty where the system does not tell."""
    flags = set((_cpuinfo("flags") or _cpuinfo("Features")).split())
    return tuple(feature for feature in _FEATURES if feature in flags)


def cpu_name() -> str:
    """The processor, as it calls itself, with the architecture."""
    name = _cpuinfo("model name") or platform.processor()
    return f"{name} ({platform.machine()})" if name and name != platform.machine() else platform.machine()


def _cpuinfo(key: str) -> str:
    try:
        lines = _CPUINFO.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.partition(":")[0].strip() == key), "")
