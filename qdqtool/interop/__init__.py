"""Quantize and dequantize as other systems define it: one module per system, with the signatures of that system.

No module needs the system that it follows. All modules compute on arrays. All except ``onnx`` also return the ONNX
nodes that compute the same, as a :class:`GraphPiece`. The package is optional: no other package imports it.

In: arrays, scales and the parameters of that system. Out: codes or floats, or a piece of a graph.

Read next: ``onnx.py``, and ``docs/reference/numerics.md`` for the differences between systems.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qdqtool.interop import onnx, pypto, tensorrt, torch, tripy
    from qdqtool.interop._graph import GraphPiece

__all__ = ["GraphPiece", "onnx", "pypto", "tensorrt", "torch", "tripy"]


def __getattr__(name: str) -> Any:
    if name == "GraphPiece":
        return importlib.import_module("qdqtool.interop._graph").GraphPiece
    if name in __all__:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
