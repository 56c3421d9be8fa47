"""What TensorRT and TensorRT for RTX have in common: they share the ONNX parser."""

QUANTIZE_TYPES = frozenset({"int8", "int4", "float8e4m3fn", "float4e2m1"})
"""Types of a Q/DQ pair that mean what ONNX means. A uint8 Q is accepted too, and computed as int8."""

FLOAT_TYPES = frozenset({"float32", "float16", "bfloat16"})

INITIALIZER_TYPES = FLOAT_TYPES | {
    "float64",
    "int8",
    "uint8",
    "int32",
    "int64",
    "bool",
    "int4",
    "float8e4m3fn",
    "float4e2m1",
}
"""Types that the parser imports as initializers, used or not."""

SYMMETRIC_TYPES = frozenset({"int8", "uint8", "int4", "float8e4m3fn", "float4e2m1"})

BLOCK_AXES = frozenset({-1, -2})
"""The parser: "the blocking dimension must be the last or second to last dimension"."""

MIN_BLOCK = 2
"""A scale for every element is no block to the parser."""
