"""TensorRT for RTX: its ahead-of-time compiler also runs without a GPU."""

from dataclasses import replace

from qdqtool.models.targets._tensorrt import MEASURED, PARSER

TARGET = replace(
    PARSER,
    id="tensorrt-rtx",
    title="TensorRT for RTX",
    verified=f"{MEASURED}, parser and builder without a GPU",
    # Measured: this parser requires positive scales for all types except int4. The published source of TensorRT's
    # parser (10.15) requires them for int4 too.
    negative_scale_types=frozenset({"int4"}),
    min_compute_capability={"int8": 75, "int4": 80, "bfloat16": 80, "float8e4m3fn": 89, "float4e2m1": 120},
    known_compute_capabilities=frozenset({75, 80, 86, 89, 120, 121}),
)
