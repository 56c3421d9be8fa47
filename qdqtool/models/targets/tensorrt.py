"""TensorRT 11: it is always strongly typed, so only the Q/DQ nodes decide which layers are quantized."""

from dataclasses import replace

from qdqtool.models.targets._tensorrt import CHANGES, MEASURED, PARSER, Releases

TARGET = replace(
    PARSER,
    title="TensorRT 11",
    verified=f"the parser it shares with {MEASURED}; its own builder may be stricter",
    # NVIDIA documents FP4 from compute capability 10.0; TensorRT for RTX lists only 12.0 and 12.1.
    min_compute_capability={"int8": 75, "int4": 80, "bfloat16": 80, "float8e4m3fn": 89, "float4e2m1": 100},
)

RELEASES = Releases(
    title="TensorRT",
    verified="not run by us: from changelog and source of its ONNX parser, and names in its Python packages; the rest "
    "as in TensorRT 11",
    numbers=(*(f"10.{minor}" for minor in range(17)), *(f"11.{minor}" for minor in range(5))),
    changes=CHANGES,
)
