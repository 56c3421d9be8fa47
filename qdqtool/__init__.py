"""Insert, validate and check ONNX QuantizeLinear/DequantizeLinear nodes, and build TensorRT engines from them.

Importing this package is instant: every public name is loaded when it is first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qdqtool import interop as interop
    from qdqtool.arrays import dequantize as dequantize
    from qdqtool.arrays import fake_quantize as fake_quantize
    from qdqtool.arrays import quantize as quantize
    from qdqtool.arrays import scale_from_range as scale_from_range
    from qdqtool.arrays import scale_from_tensor as scale_from_tensor
    from qdqtool.pipeline.build import build_engine as build_engine
    from qdqtool.pipeline.calibrate import calibrate as calibrate
    from qdqtool.pipeline.check import check_model as check_model
    from qdqtool.pipeline.convert_ranges import convert_ranges as convert_ranges
    from qdqtool.pipeline.diff import diff_models as diff_models
    from qdqtool.pipeline.fix import fix_models as fix_models
    from qdqtool.pipeline.insert import insert_encodings as insert_encodings
    from qdqtool.pipeline.insert import insert_plan as insert_plan
    from qdqtool.pipeline.inspect import inspect_model as inspect_model
    from qdqtool.pipeline.normalize_model import normalize_model as normalize_model
    from qdqtool.pipeline.quantize import quantize_model as quantize_model
    from qdqtool.pipeline.strip import strip_model as strip_model
    from qdqtool.pipeline.validate import validate_model as validate_model

__version__ = "0.1.0"

_HOMES = {
    "build_engine": "qdqtool.pipeline.build",
    "calibrate": "qdqtool.pipeline.calibrate",
    "check_model": "qdqtool.pipeline.check",
    "convert_ranges": "qdqtool.pipeline.convert_ranges",
    "dequantize": "qdqtool.arrays",
    "diff_models": "qdqtool.pipeline.diff",
    "fake_quantize": "qdqtool.arrays",
    "fix_models": "qdqtool.pipeline.fix",
    "insert_encodings": "qdqtool.pipeline.insert",
    "insert_plan": "qdqtool.pipeline.insert",
    "inspect_model": "qdqtool.pipeline.inspect",
    "normalize_model": "qdqtool.pipeline.normalize_model",
    "quantize": "qdqtool.arrays",
    "quantize_model": "qdqtool.pipeline.quantize",
    "scale_from_range": "qdqtool.arrays",
    "scale_from_tensor": "qdqtool.arrays",
    "strip_model": "qdqtool.pipeline.strip",
    "validate_model": "qdqtool.pipeline.validate",
}

__all__ = [
    "__version__",
    "build_engine",
    "calibrate",
    "check_model",
    "convert_ranges",
    "dequantize",
    "diff_models",
    "fake_quantize",
    "fix_models",
    "insert_encodings",
    "insert_plan",
    "inspect_model",
    "interop",
    "normalize_model",
    "quantize",
    "quantize_model",
    "scale_from_range",
    "scale_from_tensor",
    "strip_model",
    "validate_model",
]


def __getattr__(name: str) -> Any:
    if name == "interop":
        return importlib.import_module("qdqtool.interop")
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'qdqtool' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
