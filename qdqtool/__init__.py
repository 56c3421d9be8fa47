"""Insert, validate and check ONNX QuantizeLinear/DequantizeLinear nodes, and build TensorRT engines from them.

Importing this package is instant: every public name is loaded when it is first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

from qdqtool.version import __version__ as __version__

if TYPE_CHECKING:
    from qdqtool import interop as interop
    from qdqtool.interop.arrays import dequantize as dequantize
    from qdqtool.interop.arrays import fake_quantize as fake_quantize
    from qdqtool.interop.arrays import quantize as quantize
    from qdqtool.interop.arrays import scale_from_range as scale_from_range
    from qdqtool.interop.arrays import scale_from_tensor as scale_from_tensor
    from qdqtool.jobs.build import build_engine as build_engine
    from qdqtool.jobs.calibrate import calibrate as calibrate
    from qdqtool.jobs.check import check_model as check_model
    from qdqtool.jobs.convert_ranges import convert_ranges as convert_ranges
    from qdqtool.jobs.diff import diff_models as diff_models
    from qdqtool.jobs.fix import fix_models as fix_models
    from qdqtool.jobs.insert import insert_encodings as insert_encodings
    from qdqtool.jobs.insert import insert_plan as insert_plan
    from qdqtool.jobs.inspect import inspect_model as inspect_model
    from qdqtool.jobs.normalize import normalize_model as normalize_model
    from qdqtool.jobs.quantize import quantize_model as quantize_model
    from qdqtool.jobs.strip import strip_model as strip_model
    from qdqtool.jobs.validate import validate_model as validate_model

_HOMES = {
    "build_engine": "qdqtool.jobs.build",
    "calibrate": "qdqtool.jobs.calibrate",
    "check_model": "qdqtool.jobs.check",
    "convert_ranges": "qdqtool.jobs.convert_ranges",
    "dequantize": "qdqtool.interop.arrays",
    "diff_models": "qdqtool.jobs.diff",
    "fake_quantize": "qdqtool.interop.arrays",
    "fix_models": "qdqtool.jobs.fix",
    "insert_encodings": "qdqtool.jobs.insert",
    "insert_plan": "qdqtool.jobs.insert",
    "inspect_model": "qdqtool.jobs.inspect",
    "normalize_model": "qdqtool.jobs.normalize",
    "quantize": "qdqtool.interop.arrays",
    "quantize_model": "qdqtool.jobs.quantize",
    "scale_from_range": "qdqtool.interop.arrays",
    "scale_from_tensor": "qdqtool.interop.arrays",
    "strip_model": "qdqtool.jobs.strip",
    "validate_model": "qdqtool.jobs.validate",
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
