"""Messages of TensorRT's parser and builder in plain words, with the way out: a table, first match wins.

The patterns are messages that TensorRT for RTX 1.7.1 printed.
"""

import re
from dataclasses import dataclass

BY_OPERATOR = "by operator"
"""In place of a hint: it depends on the operator (:mod:`qdqtool.builders.operator_hints`)."""


@dataclass(frozen=True, slots=True)
class Known:
    """A message of TensorRT that is explained.

    Attributes:
        pattern: Finds the message; the first one of :data:`KNOWN` that does counts.
        reason: The reason in plain words, with ``{0}`` for the first group of the pattern.
        hint: How to fix it; None where that is not known; :data:`BY_OPERATOR` where the operator decides.
    """

    pattern: re.Pattern[str]
    reason: str
    hint: str | None = None


def _known(pattern: str, reason: str, hint: str | None = None) -> Known:
    return Known(re.compile(pattern, re.DOTALL), reason, hint)


_VALIDATE = "`qdqtool validate` names the tensor and the values"

KNOWN = (
    _known(
        r"Non-zero zero point is not supported",
        "its zero point is not 0; TensorRT quantizes symmetrically",
        "quantize symmetrically: zero points of 0 and type int8",
    ),
    _known(
        r"input has type Int32 but must have type FP8",
        "it dequantizes int32 data, usually a quantized bias; TensorRT keeps biases in float",
        "quantize without bias quantization, or replace the bias by its float value",
    ),
    _known(
        # The general form of the message above: the first pattern that matches wins, so the special form stands
        # first.
        r"input has type (\w+) but must have type (.+)",
        "its input has type {0}; it must be {1}",
    ),
    _known(
        r"unsupported input type of UINT8",
        "it reads uint8 data; TensorRT takes int8, int4, float8e4m3fn and float4e2m1",
        BY_OPERATOR,
    ),
    _known(
        r"only allows FP8, INT8, INT4, and FP4 quantization\. The specified quantization type is (\w+)",
        "it quantizes to {0}; TensorRT takes int8, int4, float8e4m3fn and float4e2m1",
    ),
    _known(
        r"Mismatch between attribute output_dtype (\w+) and zero-point data type (\w+)",
        "its output_dtype is {0} but its zero point is {1}",
        "make both the same type",
    ),
    _known(
        r"Scale coefficients must all be positive",
        "a scale is zero, negative or not a number",
        _VALIDATE,
    ),
    _known(
        # The parser says "output channels" for any axis.
        r"Number of output channels = (\d+), number of scales = (\d+)",
        "it has {1} scales for an axis of length {0}",
        "check the axis attribute and the length of the scale",
    ),
    _known(
        r"Axis must be in the range \[0, nbDims \((\d+)\)\]",
        "its axis is outside a tensor of rank {0}",
    ),
    _known(
        r"Block Quantization requires identical rank|ScaleMode is illegal|Invalid rank for the scale tensor",
        "the shape of its scale is none that TensorRT reads: a scalar, one scale per index of a static axis, or blocks",
        "per-tensor scales are scalars or have shape [1]; per-axis scales have rank 1",
    ),
    _known(r"Cannot have scale with no coefficients", "its scale is empty"),
    _known(
        r"scale and zero point must have the same volume\. Size of zero point = (\d+), size of the scale = (\d+)",
        "it has {1} scales but {0} zero points",
        "give the zero point the shape of the scale",
    ),
    _known(
        r"only the quantization axis may be blocked|Only a single blocking dimension",
        "its scale is blocked along more than one axis",
    ),
    _known(
        r"blocking dimension must be the last or second to last",
        "it is blocked along an axis that is neither the last nor the one before; no Conv weight can be blocked",
        "use per-axis scales",
    ),
    _known(
        r"must divide into whole blocks",
        "its blocks do not divide the axis",
        "choose a block size that divides the axis",
    ),
    _known(
        # "requies" is TensorRT's own spelling.
        r"odd tensor volume|requies an even number of elements",
        "it holds an odd number of 4-bit values",
        "pad the weight, or leave it unquantized",
    ),
    _known(
        r"convertOnnxWeights\(initializer, &weights\): Failed to import initializer: (.+)",
        "initializer '{0}' has a type that TensorRT does not hold, or cannot be read",
        "TensorRT holds float32, float16, bfloat16, int64, int32, int8, uint8, bool, int4, float8e4m3fn, float4e2m1",
    ),
    _known(
        r"`input` and `kernel` must be of same type\. `input` type is (\w+) but `kernel` is of type (\w+)",
        "its input is {0} and its weight is {1}; both must have one type",
        "dequantize both to one float type: a DequantizeLinear gives the type of its scale",
    ),
    _known(
        r"must have same input types\. `A` is of type (\w+) and `B` is of type (\w+)",
        "its inputs are {0} and {1}; both must have one type",
        "dequantize both to one float type: a DequantizeLinear gives the type of its scale",
    ),
    _known(
        r"Input and filter have to be the same type",
        "a Conv or MatMul has operands quantized to different types, such as int8 and float8e4m3fn",
        "quantize both operands of a node to the same type",
    ),
    _known(
        r"Failed attempt to rename a layer from .* to (.+) as the new name is already in use",
        "two Q/DQ nodes end up with the name '{0}': a duplicate, or a local function or branch that has them twice",
        "make the node names unique; inline local functions that are called more than once",
    ),
    _known(
        r"Plugin not found|failed to load \w+ plugin|creator && |plugin was not found in the plugin registry",
        "TensorRT has no such operator, nor a plugin of that name",
        BY_OPERATOR,
    ),
    _known(
        r"Quantized constant \((.+?)\) is only allowed before DQ",
        "the quantized constant '{0}' does not feed a DequantizeLinear directly, or feeds two from different branches",
        "move what stands between them behind the DequantizeLinear",
    ),
    _known(
        r"has `zero_point` which is not an initializer",
        "its zero point is computed instead of constant",
        "store the zero point as an initializer",
    ),
    _known(
        r"Cannot compile for target\(s\) ([\w, ]+), because the model contains HW-specific datatypes: (\w+)",
        "the model has type {1}, which {0} cannot compute",
        "name targets that can with --compute-capabilities, or leave the option out",
    ),
    _known(
        r"Cannot compile operation '(.+?)' for Turing \(SM75\): (.+)",
        "operation '{0}' cannot run on compute capability 7.5: {1}",
        "leave 7.5 out of --compute-capabilities",
    ),
    _known(
        r"dynamic or shape inputs, but no optimization profile",
        "an input has dynamic dimensions without shapes to build for",
        "give --opt-shapes",
    ),
    _known(
        r"k(\w+) values for profile \d+ violate shape constraints: (.+?)(?: \(build-time| Condition |$)",
        "the network cannot take its {0} shapes: {1}",
        "give shapes that every layer can compute with --min-shapes, --opt-shapes and --max-shapes",
    ),
    _known(
        r"Attention operation was not supported by a dedicated kernel",
        "there is no kernel for this Attention node; in float32 it does not build even unquantized",
        "make it float16: `qdqtool quantize --high-precision-dtype fp16`",
    ),
    _known(
        r"(Assertion tScope\.getType\(\) != ScopeType::kUNDEFINED failed)",
        "the builder fails with an internal error in the control flow (If, Loop) of the model, quantized or not ({0})",
        "fold the If nodes: --input-shapes NAME:1x3x320x320 where shapes decide them, --input-values NAME:16000 where "
        "the values of an input do",
    ),
    _known(
        r"Failed to convert ONNX date type",
        "a tensor has a type that TensorRT does not hold, such as float64, int16, uint16, uint32, uint64 or string",
        "export inputs, outputs and constants in float32, int32 or int64",
    ),
    _known(
        r"Unsupported data type for the Cast operator",
        "it casts to a type that TensorRT does not hold, such as float64, int16 or string",
        "cast to float32, int32 or int64",
    ),
    _known(
        r"Axis input must resolve to a build-time constant|(?:un)?squeeze axis is not a constant",
        "its axes are computed while the model runs; TensorRT needs them when it builds",
        "store the axes as an initializer; where they follow from shapes, --input-shapes of `qdqtool build` folds them",
    ),
    _known(
        r"(\w+) must be an initializer",
        "its input {0} is computed while the model runs; TensorRT needs it when it builds",
        "store it as an initializer",
    ),
    _known(
        r"doesn't support mode than 1 outputs",
        "TensorRT computes only its first output, and something uses another one",
        "export the model without the further outputs",
    ),
    _known(
        r"Network input (\S+) is a shape tensor and must have type Int32 or Int64\. Type is (\w+)",
        "shapes are computed from graph input '{0}', which is {1}; TensorRT takes such inputs in int32 or int64",
        "make it a constant, `--input-values {0}:VALUE`, or an integer input",
    ),
    _known(
        r"does not support UINT8 types for intermediate tensors",
        "it makes a uint8 tensor inside the model; TensorRT has them only as inputs and outputs",
        "cast to float32 first",
    ),
    _known(
        r"ElementWiseOperation \w+ requires inputs with type .*?But type is (\w+)",
        "it computes with {0}, which TensorRT does not for this operator",
        "cast its inputs to float32 or int32",
    ),
    _known(
        r"does not support training_mode == 1|only supports the training_mode",
        "it is in training mode",
        "export the model for inference",
    ),
    _known(
        r"(?:ScatterND with reduction is not supported|Unsupported reduction type)",
        "TensorRT scatters without a reduction only (attribute reduction is not 'none')",
        "export it without index_add or scatter_add, or run that part outside the engine",
    ),
    _known(
        r"isInFlight",
        "TensorRT fails with an internal error on a shape that depends on itself or on values",
        "fix the input shapes: --input-shapes of `qdqtool build`",
    ),
    _known(
        r"within workspace|Could not find any implementation for node (.+?)\.",
        "it has no kernel for a node in this precision",
        "leave that node unquantized",
    ),
)
