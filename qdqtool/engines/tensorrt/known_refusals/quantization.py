"""Refusals of QuantizeLinear and DequantizeLinear nodes: zero points, scales, axes, blocks, types."""

from qdqtool.engines.tensorrt.known_refusals._known import BY_OPERATOR, known
from qdqtool.engines.tensorrt.known_refusals.types import HELD

_TYPES = "TensorRT takes int8, int4, float8e4m3fn and float4e2m1"

ENTRIES = (
    known(
        r"Non-zero zero point is not supported",
        "its zero point is not 0; TensorRT quantizes symmetrically",
        hint="quantize symmetrically: zero points of 0 and type int8",
        rules="QP102",
    ),
    known(
        r"input has type Int32 but must have type FP8",
        "it dequantizes int32 data, usually a quantized bias; TensorRT keeps biases in float",
        hint="quantize without bias quantization, or replace the bias by its float value",
        rules="QL301 QP103 QL312",
    ),
    known(
        r"Block quantization is not supported for DataType (\w+)",
        f"its codes in blocks are {{0}}; {_TYPES}",
        hint="quantize to one of these types, and keep biases in float",
        rules="QP103",
    ),
    known(
        r"input has type (\w+) but must have type Float, Half, or BFloat16",
        "it quantizes {0} data; TensorRT quantizes float32, float16 and bfloat16",
        hint="quantize the float tensor in front of it, or remove the node",
        rules="QP109 QT407",
    ),
    known(
        r"input has type (\w+) but must have type FP8, FP4, Int4, Int8, or UInt8",
        f"it dequantizes {{0}} data; {_TYPES}",
        hint="a DequantizeLinear reads codes: put a QuantizeLinear in front of it, or remove it",
        rules="QT407 QP103",
    ),
    known(
        r"output has type (\w+) but must have type Float",
        "its output_dtype is {0}; a DequantizeLinear makes float32, float16 or bfloat16",
        hint="remove the attribute output_dtype",
        rules="QS011",
    ),
    known(
        r"Attribute precision can only be used with",
        "it has the attribute precision, which only a QuantizeLinear may have",
        hint="remove the attribute precision",
        rules="QS011",
    ),
    known(
        r"only allows FP8, INT8, INT4, and FP4 quantization\. The specified quantization type is (\w+)",
        f"it quantizes to {{0}}; {_TYPES}",
        hint="quantize to int8 with zero points of 0",
        rules="QP103",
    ),
    known(
        r"Mismatch between attribute output_dtype (\w+) and zero-point data type (\w+)",
        "its output_dtype is {0} but its zero point is {1}",
        hint="make both the same type",
        rules="QS003",
    ),
    known(
        r"output_dtype specifies an unsupported data type (\w+)",
        f"its output_dtype is {{0}}; {_TYPES}",
        hint="give output_dtype the type of the codes",
        rules="QS003 QP103 QT404",
    ),
    known(
        r"Scale coefficients must all be positive",
        "a scale is zero, negative or not a number",
        hint="`qdqtool validate --target tensorrt-rtx MODEL` names the tensor and the values",
        rules="QP101",
    ),
    known(
        # The parser says "output channels" for any axis.
        r"Number of output channels = (\d+), number of scales = (\d+)",
        "it has {1} scales for an axis of length {0}",
        hint="check the axis attribute and the length of the scale",
        rules="QA205",
    ),
    known(
        r"Axis must be in the range \[0, nbDims \((\d+)\)\]",
        "its axis is outside a tensor of rank {0}",
        hint="give an axis of the tensor, the one along which the scales run",
        rules="QA208",
    ),
    known(
        r"quantization axis must index a dimension of the input\. Axis = (-?\d+), rank = (\d+)",
        "its axis is {0}, outside a tensor of rank {1}",
        hint="give an axis of the tensor, the one along which the scales run; a scalar has one scale",
        rules="QA208 QA207",
    ),
    known(
        r"Block Quantization requires identical rank|ScaleMode is illegal|Invalid rank for the scale tensor",
        "TensorRT does not support its scale's shape, only scalars, one scale per index of a static axis, and blocks",
        hint="per-tensor scales are scalars or have shape [1]; per-axis scales have rank 1",
        rules="QA207 QA203 QA209",
    ),
    known(
        r"Cannot have scale with no coefficients",
        "its scale is empty",
        hint="give it one scale, or one for each index of the axis",
        rules="QA205",
    ),
    known(
        r"scale and zero point must have the same volume\. Size of zero point = (\d+), size of the scale = (\d+)",
        "it has {1} scales but {0} zero points",
        hint="give the zero point the shape of the scale",
        rules="QS003",
    ),
    known(
        r"only the quantization axis may be blocked|Only a single blocking dimension",
        "its scale is blocked along more than one axis",
        hint="give the scale the shape of the data, except for the axis that is cut into blocks",
        rules="QA203",
    ),
    known(
        r"blocking dimension must be the last or second to last",
        "it is blocked along an axis that is neither the last nor the one before; no Conv weight can be blocked",
        hint="use per-axis scales",
        rules="QA203",
    ),
    known(
        r"must divide into whole blocks",
        "its blocks do not divide the axis",
        hint="choose a block size that divides the axis",
        rules="QA203",
    ),
    known(
        # "requies" is TensorRT's own spelling.
        r"odd tensor volume|requies an even number of elements",
        "it holds an odd number of 4-bit values",
        hint="pad the weight, or leave it unquantized",
        rules="QA204",
    ),
    known(
        r"requires at least 2 inputs for the QuantizeLinear/DequantizeLinear",
        "it has no scale",
        hint="give it a scale; a custom operator must not be called QuantizeLinear or DequantizeLinear",
        rules="QS008 QT407",
    ),
    known(
        r"convertOnnxWeights\(initializer, &weights\): Failed to import initializer: (?P<tensor>.+)",
        "initializer '{0}' has a type that TensorRT does not support, or cannot be read",
        hint=f"TensorRT supports {', '.join(HELD)}",
        rules="QP103 QP102 QM606 QM613 QS005",
    ),
    known(
        r"Failed attempt to rename a layer from .* to (.+) as the new name is already in use",
        "two Q/DQ nodes have the name '{0}', in the model or after local functions and branches are inlined",
        hint="make the node names unique; inline local functions that are called more than once",
        rules="QM605",
    ),
    known(
        r"(?P<node>\S+) has `zero_point` which is not an initializer",
        "its zero point is computed; it must be constant",
        hint="store the zero point as an initializer",
        rules="QP107",
    ),
    known(
        r"does not support UINT8 types for intermediate tensors",
        "it makes a uint8 tensor inside the model; TensorRT supports uint8 only for inputs and outputs",
        hint="cast to float32 first",
        rules="QP107 QP103",
    ),
    known(
        r"unsupported input type of UINT8",
        "it reads uint8 data; TensorRT takes int8, int4, float8e4m3fn and float4e2m1",
        hint=BY_OPERATOR,
        rules="QP103",
    ),
)
