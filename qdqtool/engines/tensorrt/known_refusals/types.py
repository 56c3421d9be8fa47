"""Refusals of tensor types, in any operator."""

from qdqtool.engines.tensorrt.known_refusals._known import known

UNHELD_INPUT = "Failed to convert ONNX date type"
"""A part of the message about a graph input with an unsupported type; the message does not name the input."""
HELD = (
    "float32",
    "float16",
    "bfloat16",
    "int64",
    "int32",
    "int8",
    "uint8",
    "bool",
    "int4",
    "float8e4m3fn",
    "float4e2m1",
)
"""The types that tensors of TensorRT can have."""

ENTRIES = (
    known(
        UNHELD_INPUT,
        "a graph input has a type that TensorRT does not support, such as float64, int16, uint32 or string",
        hint="export it in float32, int32 or int64",
    ),
    known(
        r"Unsupported data type for the Cast operator",
        "it casts to a type that TensorRT does not support, such as float64, int16 or string",
        hint="cast to float32, int32 or int64",
    ),
    known(
        r"ElementWiseOperation \w+ requires inputs with type .*?But type is (\w+)",
        "it computes with {0}, which TensorRT does not support for this operator",
        hint="cast its inputs to float32 or int32",
    ),
    known(
        r"unsupported input type of (\w+)",
        "it reads {0} data, which TensorRT does not support for this operator",
        hint="cast its input to float32 or int32",
    ),
    known(
        # The general form of messages about Q/DQ nodes. It is last because the first match is used.
        r"input has type (\w+) but must have type ([\w, ]+)",
        "it reads {0} data; TensorRT takes {1} here",
        hint="cast its input to float32",
        rules="QT410",
    ),
)
