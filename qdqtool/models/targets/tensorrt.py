"""TensorRT 11: always strongly typed, so the Q/DQ nodes alone decide which layers are quantized."""

from qdqtool.models.targets._target import Target
from qdqtool.models.targets._tensorrt import (
    BLOCK_AXES,
    CHANGES,
    FLOAT_TYPES,
    INITIALIZER_TYPES,
    MIN_BLOCK,
    QUANTIZE_TYPES,
    SYMMETRIC_TYPES,
    Releases,
)

TARGET = Target(
    id="tensorrt",
    family="tensorrt",
    title="TensorRT 11",
    verified="the parser it shares with tensorrt-rtx 1.7.1.116; its own builder may be stricter",
    quantize_types=QUANTIZE_TYPES,
    dequantize_types=QUANTIZE_TYPES,
    # The parser converts float64 to float32 silently.
    data_types=FLOAT_TYPES | {"float64"},
    scale_types=FLOAT_TYPES | {"float64"},
    initializer_types=INITIALIZER_TYPES,
    symmetric_types=SYMMETRIC_TYPES,
    # The parser matches operator names only: it reads opset 10 to 28 alike and ignores unknown attributes.
    block_axes=BLOCK_AXES,
    whole_blocks=True,
    min_block=MIN_BLOCK,
    even_sub_bytes=True,
    uint8_as_int8=True,
    # NVIDIA documents FP4 from 10.0 on; the target list of TensorRT for RTX has only 12.0 and 12.1.
    min_compute_capability={"int8": 75, "int4": 80, "bfloat16": 80, "float8e4m3fn": 89, "float4e2m1": 100},
)

RELEASES = Releases(
    title="TensorRT",
    verified="not run by us: changelog and source of its ONNX parser, and the names in its Python packages; what they "
    "do not tell is taken to be as in TensorRT 11",
    numbers=(*(f"10.{minor}" for minor in range(17)), *(f"11.{minor}" for minor in range(5))),
    changes=CHANGES,
)
