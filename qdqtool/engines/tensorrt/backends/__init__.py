"""The NVIDIA products that build engines (TensorRT, TensorRT for RTX), one in each module.

The file name, with ``-`` in place of ``_``, is the public id; ``BUILDER`` is the builder.
"""

from qdqtool.engines.tensorrt import backends as _package
from qdqtool.engines.tensorrt.tensorrt_builder import TensorRT
from qdqtool.errors import ArgumentError
from qdqtool.registry import load_unit, suggestion, unit_names

AUTO = "auto"
# `auto` takes the first of these that is installed; TensorRT for RTX builds without a GPU, so it is the fallback.
_PREFERRED = ("tensorrt", "tensorrt-rtx")


def names() -> tuple[str, ...]:
    """Return the public ids of all builders, sorted."""
    return tuple(name.replace("_", "-") for name in unit_names(_package))


def get(name: str) -> TensorRT:
    """Return the builder with a public id; ``auto`` is TensorRT if it is installed, else TensorRT for RTX.

    Raises:
        ArgumentError: No builder has that id.
    """
    if name == AUTO:
        candidates = [get(preferred) for preferred in _PREFERRED]
        return next((builder for builder in candidates if builder.is_installed()), candidates[-1])
    if name not in names():
        raise ArgumentError(
            f"backend '{name}' is unknown; legal: {', '.join((AUTO, *names()))}{suggestion(name, names())}"
        )
    found: TensorRT = load_unit(_package, name.replace("-", "_")).BUILDER
    return found
