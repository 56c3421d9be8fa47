"""The ONNX specification itself, by opset: the definition of QuantizeLinear and DequantizeLinear."""

from qdqtool.models.targets._target import Target
from qdqtool.numerics import formats

QUANTIZED = frozenset(name for name in formats.names() if formats.get(name).first_opset.quantize is not None)
"""Types that a QuantizeLinear may produce."""

TARGET = Target(
    id="onnx",
    family="onnx",
    title="the ONNX specification",
    verified="onnx 1.23.2",
    quantize_types=QUANTIZED,
    dequantize_types=QUANTIZED | {"int32"},
    data_types=frozenset({"float32", "float16", "bfloat16", "int32"}),
    scale_types=frozenset({"float32", "float16", "bfloat16", "float8e8m0"}),
    symmetric_types=frozenset({"float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz", "float4e2m1"}),
    negative_scale_types=frozenset({"int8", "int16", "int4", "int2"}),
)
