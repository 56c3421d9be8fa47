"""Open an engine with TensorRT or TensorRT for RTX, or an ONNX model with ONNX Runtime's provider."""

from pathlib import Path

from qdqtool.engines.gpu.requirements import require_packages
from qdqtool.engines.gpu.runner import Runner

# The first bytes of an engine of TensorRT for RTX 1.7.1. Engines of TensorRT begin otherwise.
_RTX_MAGIC = b"vtrt"


def library_of(path: Path, backend: str | None) -> str:
    """Return the library that runs a file: ``tensorrt``, ``tensorrt-rtx`` or ``onnxruntime``.

    Args:
        path: The file; it need not be there.
        backend: What built it, where its manifest says so.
    """
    if path.suffix == ".onnx":
        return "onnxruntime"
    return backend or ("tensorrt-rtx" if _begins(path) == _RTX_MAGIC else "tensorrt")


def open_runner(path: Path, library: str) -> Runner:
    """Load a file on the GPU.

    Args:
        path: The engine, or the ONNX model.
        library: The library that runs it, from :func:`library_of`.

    Raises:
        CapabilityError: A package is absent, or CUDA fails.
        ModelError: The file cannot be read, or the library does not take it.
        GateError: ONNX Runtime's provider does not take the whole model.
    """
    require_packages(library)
    if library == "onnxruntime":
        from qdqtool.engines.gpu.onnxruntime_runner import OnnxRuntimeRunner

        return OnnxRuntimeRunner(path)
    from qdqtool.engines.gpu.tensorrt_runner import TensorRTRunner

    return TensorRTRunner(path, library)


def _begins(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(len(_RTX_MAGIC))
    except OSError:
        return b""
