"""Check what a machine needs to run engines: a GPU with its driver, and packages. Nothing heavy is imported."""

from collections.abc import Mapping

from qdqtool.engines.tensorrt.gpus import Gpu, find_gpus, is_installed
from qdqtool.errors import CapabilityError

NEVER_RUN = "never run on a GPU so far"
"""The text of ``doctor`` and of help for the commands that use this package; details: ``docs/how-to/build.md``."""


_CUDA = {"cuda.bindings": "cuda-python"}
_PACKAGES: Mapping[str, Mapping[str, str]] = {
    "tensorrt": {**_CUDA, "tensorrt": "tensorrt"},
    "tensorrt-rtx": {**_CUDA, "tensorrt_rtx": "tensorrt-rtx"},
    "onnxruntime": {
        "onnxruntime": "onnxruntime",
        "onnxruntime_ep_nv_tensorrt_rtx": "onnxruntime-ep-nv-tensorrt-rtx-cu13",
    },
}
"""The modules that the runner of a library imports, with the package that installs each."""


def require_gpu() -> Gpu:
    """Return the GPU that engines run on: the first GPU that the CUDA driver lists.

    Raises:
        CapabilityError: There is no driver or no GPU.
    """
    gpus, reason = find_gpus()
    if not gpus:
        raise CapabilityError(
            f"no NVIDIA GPU: {reason}",
            hint="copy the engine and the data to the machine with the GPU; `pip install cuda-python tensorrt-rtx` "
            "installs the packages that this machine needs",
        )
    return gpus[0]


def require_packages(library: str) -> None:
    """Check that the packages of a runner are installed.

    Args:
        library: ``tensorrt``, ``tensorrt-rtx`` or ``onnxruntime``.

    Raises:
        CapabilityError: A package is missing; the hint installs all missing packages.
    """
    absent = {module: package for module, package in _PACKAGES[library].items() if not is_installed(module)}
    if absent:
        modules = ", ".join(f"'{module}'" for module in absent)
        line = " ".join(absent.values())
        raise CapabilityError(
            f"Python cannot find {modules}, which are needed to run an engine", hint=f"install it: `pip install {line}`"
        )
