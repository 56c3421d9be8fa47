"""Quantize and dequantize as other systems mean them: one module a system, with its own signatures and words.

Nothing of those systems is needed to run these. Each module also gives the ONNX nodes that mean the same.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qdqtool.interop import onnx as onnx
    from qdqtool.interop import pypto as pypto
    from qdqtool.interop import tensorrt as tensorrt
    from qdqtool.interop import torch as torch
    from qdqtool.interop import tripy as tripy

__all__ = ["onnx", "pypto", "tensorrt", "torch", "tripy"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
