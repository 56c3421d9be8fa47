"""TensorRT for RTX: the ahead-of-time compiler that also runs without a GPU."""

from qdqtool.models.targets._target import Target
from qdqtool.models.targets._tensorrt import (
    BLOCK_AXES,
    FLOAT_TYPES,
    INITIALIZER_TYPES,
    MIN_BLOCK,
    QUANTIZE_TYPES,
    SYMMETRIC_TYPES,
)

TARGET = Target(
    id="tensorrt-rtx",
    family="tensorrt",
    title="TensorRT for RTX",
    verified="tensorrt-rtx 1.7.1.116, parser and builder without a GPU",
    quantize_types=QUANTIZE_TYPES,
    dequantize_types=QUANTIZE_TYPES,
    # The parser converts float64 to float32 silently.
    data_types=FLOAT_TYPES | {"float64"},
    scale_types=FLOAT_TYPES | {"float64"},
    initializer_types=INITIALIZER_TYPES,
    symmetric_types=SYMMETRIC_TYPES,
    # The parser matches operator names only: it reads opset 10 to 28 alike and ignores unknown attributes.
    block_axes=BLOCK_AXES,
    # Measured with 1.7.1: this parser wants positive scales of all types but int4. The published source of TensorRT's
    # parser (10.15) wants them of int4 too.
    negative_scale_types=frozenset({"int4"}),
    whole_blocks=True,
    min_block=MIN_BLOCK,
    even_sub_bytes=True,
    uint8_as_int8=True,
    min_compute_capability={"int8": 75, "int4": 80, "bfloat16": 80, "float8e4m3fn": 89, "float4e2m1": 120},
    known_compute_capabilities=frozenset({75, 80, 86, 89, 120, 121}),
)
