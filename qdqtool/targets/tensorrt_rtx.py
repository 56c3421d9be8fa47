"""TensorRT for RTX: the ahead-of-time compiler that also runs without a GPU."""

from qdqtool.targets._target import Target
from qdqtool.targets._tensorrt_family import FLOAT_TYPES, INITIALIZER_TYPES, QUANTIZE_TYPES, SYMMETRIC_TYPES

TARGET = Target(
    id="tensorrt-rtx",
    family="tensorrt",
    title="TensorRT for RTX",
    verified="tensorrt-rtx 1.7.1.116, parser and builder without a GPU",
    quantize_types=QUANTIZE_TYPES,
    dequantize_types=QUANTIZE_TYPES,
    data_types=FLOAT_TYPES | {"float64"},
    scale_types=FLOAT_TYPES | {"float64"},
    initializer_types=INITIALIZER_TYPES,
    symmetric_types=SYMMETRIC_TYPES,
    follows_opset=False,
    min_compute_capability={"int8": 75, "int4": 80, "float8e4m3fn": 89, "float4e2m1": 120},
)
