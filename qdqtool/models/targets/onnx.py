"""The ONNX specification itself, by opset: what QuantizeLinear and DequantizeLinear mean, whoever runs them."""

from qdqtool.models.targets._target import Target

_QUANTIZED = frozenset(
    {
        "int8",
        "uint8",
        "int16",
        "uint16",
        "int4",
        "uint4",
        "int2",
        "uint2",
        "float8e4m3fn",
        "float8e4m3fnuz",
        "float8e5m2",
        "float8e5m2fnuz",
        "float4e2m1",
        "float6e2m3",
        "float6e3m2",
    }
)

TARGET = Target(
    id="onnx",
    family="onnx",
    title="the ONNX specification",
    verified="onnx 1.23.2",
    quantize_types=_QUANTIZED,
    dequantize_types=_QUANTIZED | {"int32"},
    data_types=frozenset({"float32", "float16", "bfloat16", "int32"}),
    scale_types=frozenset({"float32", "float16", "bfloat16", "float8e8m0"}),
    symmetric_types=frozenset({"float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz", "float4e2m1"}),
    negative_scale_types=frozenset({"int8", "int16", "int4", "int2"}),
)
