"""The facts that TensorRT and TensorRT for RTX share, because they share the ONNX parser."""

QUANTIZE_TYPES = frozenset({"int8", "int4", "float8e4m3fn", "float4e2m1"})
"""Types of a Q/DQ pair that the parser computes as ONNX specifies. It accepts a Q to uint8 too, and computes int8."""

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
"""Types that the parser imports as initializers. It refuses other types even where nothing uses the initializer."""

# The parser refuses other zero points ("Non-zero zero point is not supported") for int8, uint8, int4 and fp4; it
# ignores those of fp8.
SYMMETRIC_TYPES = frozenset({"int8", "uint8", "int4", "float8e4m3fn", "float4e2m1"})

BLOCK_AXES = frozenset({-1, -2})
"""The parser: "the blocking dimension must be the last or second to last dimension"."""

MIN_BLOCK = 2
"""A scale for every element is no block to the parser."""
