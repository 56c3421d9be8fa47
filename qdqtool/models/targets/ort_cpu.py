"""ONNX Runtime on the CPU without graph optimizations: the reference session of ``check``."""

from qdqtool.models.targets._target import Target
from qdqtool.models.targets.onnx import QUANTIZED

_QUANTIZED = QUANTIZED - {"float4e2m1", "float6e2m3", "float6e3m2"}

TARGET = Target(
    id="ort-cpu",
    family="ort-cpu",
    title="ONNX Runtime, CPU execution provider",
    verified="onnxruntime 1.31.1, optimizations disabled",
    quantize_types=_QUANTIZED,
    dequantize_types=_QUANTIZED | {"int32"},
    data_types=frozenset({"float32", "float16"}),
    scale_types=frozenset({"float32", "float16"}),
    symmetric_types=frozenset({"float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz"}),
    negative_scale_types=frozenset({"int8", "int16", "int4", "int2"}),
    # Official limits of 1.31.1: later opsets and IR versions are refused when a session is created.
    max_opset=26,
    max_ir=13,
)
