"""ONNX Runtime's calibration tables in JSON, as ``onnxruntime.quantization`` 1.31 and earlier versions write them.

* ``quantize_static(calibration_cache_path=...)``: ``{"CLS": "TensorsData", "data": {name: {"lowest": ...}}, ...}``;
* ``write_calibration_table``: ``{name: {"lowest": ..., "highest": ..., "CLS": "TensorData"}}``;
* ``write_calibration_table`` of older versions: ``{name: [lowest, highest]}``.

A number may be plain or ``{"data": [x], "dtype": "float32", "CLS": "numpy.array"}``. Histograms (``hist``, ``bins``)
are not read: ``lowest`` and ``highest`` are the range that ONNX Runtime derived from them and uses.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from qdqtool.errors import UsageError
from qdqtool.quantization.ranges.encodings._types import (
    EncodingFormat,
    Encodings,
    as_number,
    decode_object,
    peek_values,
    tensor_range,
    top_level_keys,
)
from qdqtool.quantization.ranges.types import TensorRange

FLOAT32_MAX = float(np.finfo(np.float32).max)


class _OrtJson(EncodingFormat):
    title = "ONNX Runtime calibration table"

    def recognizes(self, data: bytes) -> bool:
        keys = top_level_keys(data)
        if "CLS" in keys:
            return "data" in keys
        return bool(keys) and all(_is_entry(each) for each in peek_values(data))

    def read(self, data: bytes) -> Encodings:
        document = decode_object(data)
        table = document.get("data") if "CLS" in document else document
        if not isinstance(table, dict):
            raise UsageError("'data' is not an object of tensor names")
        return Encodings({name: _range(name, entry) for name, entry in table.items()})

    def write(self, ranges: Mapping[str, TensorRange]) -> bytes:
        document = {
            "CLS": "TensorsData",
            "data": {name: _entry(name, found) for name, found in ranges.items()},
            "calibration_method": {"CLS": "CalibrationMethod", "value": "CalibrationMethod.MinMax"},
            "smooth_quant": False,
        }
        return msgspec.json.encode(document) + b"\n"


FORMAT = _OrtJson()


def _is_entry(value: Any) -> bool:
    if isinstance(value, dict):
        return value.get("CLS") == "TensorData" or {"lowest", "highest"} <= value.keys()
    return isinstance(value, list) and len(value) == 2 and all(isinstance(end, int | float) for end in value)


def _range(name: str, entry: Any) -> TensorRange:
    ends = (entry.get("lowest"), entry.get("highest")) if isinstance(entry, dict) else entry
    if not isinstance(ends, tuple | list) or len(ends) != 2:
        raise UsageError(f"tensor '{name}' has no lowest and highest value")
    low, high = (_number(name, end) for end in ends)
    return tensor_range(name, low, high)


def _number(name: str, value: Any) -> float:
    found = value
    if isinstance(found, dict) and found.get("CLS") == "numpy.array":
        found = found.get("data")
    while isinstance(found, list) and len(found) == 1:
        found = found[0]
    number = as_number(found)
    if number is None:
        raise UsageError(f"tensor '{name}': {str(value)[:80]} is no number", hint="only per-tensor ranges are read")
    return number


def _entry(name: str, found: TensorRange) -> dict[str, Any]:
    if found.amax > FLOAT32_MAX:
        raise UsageError(f"tensor '{name}' reaches {found.amax:g}, which float32 cannot hold")
    return {"lowest": _array(found.min), "highest": _array(found.max), "CLS": "TensorData"}


def _array(value: float) -> dict[str, Any]:
    return {"data": [float(np.float32(value))], "dtype": "float32", "CLS": "numpy.array"}
