"""Refusals of operators with quantized operands, of tensors of codes, and of Attention nodes."""

from functools import partial

from qdqtool.engines.tensorrt.known_refusals._known import known
from qdqtool.engines.tensorrt.operator_hints import inlining_hint

_types = partial(known, rules="QT405")
_ONE_FLOAT = "dequantize both to one float type: a DequantizeLinear gives the type of its scale"
_INFER = r"Could not infer output types for operation:\s+\d+: "
_OPERAND = r"\S*-(?:\{[^}]*\})?\((\w+)\["
_NODE = r".*?stream = \d+ // (?P<node>[^\s,]+)"
# The same computation builds if it is written with MatMul and Softmax.
_attention = partial(known, hint=inlining_hint("Attention"), rules="QT402")

ENTRIES = (
    _types(
        r"Input and filter have to be the same type",
        "a MatMul, Gemm or ConvTranspose has operands quantized to different types, such as int8 and float8e4m3fn",
        hint="quantize both operands of a node to the same type",
    ),
    _types(
        r"CHECK\(dtype == W\.type\(\)\)",
        "a Conv has its input and its weight quantized to different types",
        hint="quantize both operands of a node to the same type",
    ),
    _types(
        r"CHECK\(A\.type\(\) == myelinTypeFP4E2M1 && B\.type\(\) == myelinTypeFP4E2M1\)",
        "a MatMul or Gemm multiplies float4e2m1 with another type",
        hint="quantize both operands to one type, or leave one of them in float",
    ),
    _types(
        r"CHECK\(dtype == myelinTypeFloat \|\| .* \|\| dtype == myelinTypeFP8E4M3 \|\|",
        "a Conv has operands of int4 or float4e2m1; TensorRT convolves int8, float8e4m3fn and floats",
        hint="quantize it to int8 or float8e4m3fn",
    ),
    _types(
        r"CHECK\(dtype == myelinTypeFloat \|\| dtype == myelinTypeHalf \|\| dtype == myelinTypeBF16\)",
        "a ConvTranspose has operands of int4 or float4e2m1",
        hint="leave it unquantized: TensorRT computes a ConvTranspose in float",
    ),
    known(
        r"operand\.h:\d+: CHECK\(is_constant\(\)\)",
        "the weight of a quantized MatMul or Gemm in blocks is transposed, or has a batch dimension",
        hint="store the weight as [K, N], without transB and batch dimensions",
        rules="QT418",
    ),
    known(
        r"CHECK_EQ\(opnd->mask_dimensions\(\)\.size\(\), opnd->dimensions\(\)\.size\(\)\)",
        "a tensor without dimensions is quantized with a scale of shape [1]",
        hint="make the scale a scalar",
        rules="QA207",
    ),
    known(
        r"Quantized constant \((?P<tensor>.+?)\) is only allowed before DQ",
        "the quantized constant '{0}' does not feed a DequantizeLinear directly, or feeds two from different branches",
        hint="move the operators between them behind the DequantizeLinear",
        rules="QL312 QT417 QP107",
    ),
    known(
        r"Tensor (?P<tensor>\S+) has datatype (\w+) but is not produced by",
        "tensor '{0}' is {1}, but the node that makes it is not a QuantizeLinear",
        hint="write a Cast to this type as a QuantizeLinear with a scale of 1",
        rules="QL312",
    ),
    known(
        r"Tensor (?P<tensor>\S+) has datatype (\w+) but is not consumed by",
        "tensor '{0}' is {1}, but the node that reads it is not a DequantizeLinear",
        hint="write a Cast from this type as a DequantizeLinear with a scale of 1",
        rules="QL312",
    ),
    known(
        _INFER + r"quantize: \S+-\((\w+)\[.*? \| " + _OPERAND + ".*?, " + _OPERAND + _NODE,
        "it quantizes {1} data to {0} with a {2} scale",
        hint="give the scale the type of the data",
        rules="QT409",
    ),
    known(
        _INFER + r"dequantize: \S+-\((\w+)\[.*? \| " + _OPERAND + ".*?, " + _OPERAND + _NODE,
        "it dequantizes {1} codes to {0} with a {2} scale",
        hint="give the scale the type of the output, and leave output_dtype out",
        rules="QT409",
    ),
    known(
        _INFER + r"deconv: \S+-\((\w+)\[" + _NODE,
        "no kernel computes a ConvTranspose in {0}",
        hint="compute it in float16 or float32",
        rules="QT402",
    ),
    known(
        _INFER + r"(\w+): .*? \| " + _OPERAND + _NODE,
        "no kernel computes {0} of {1}",
        hint="dequantize its input, or cast it to float32",
        rules="QS007",
    ),
    known(
        r"`input` and `kernel` must be of same type\. `input` type is (\w+) but `kernel` is of type (\w+)",
        "its input is {0} and its weight is {1}; both must have one type",
        hint=_ONE_FLOAT,
        rules="QL311",
    ),
    known(
        r"must have same input types\. `A` is of type (\w+) and `B` is of type (\w+)",
        "its inputs are {0} and {1}; both must have one type",
        hint=_ONE_FLOAT,
        rules="QL311",
    ),
    known(
        r"ElementWiseOperation \w+ must have same input types\. But they are of types (\w+) and (\w+)",
        "its inputs are {0} and {1}; both must have one type",
        hint="cast one of them; a DequantizeLinear gives the type of its scale",
        rules="QT414",
    ),
    known(
        r"IConcatenationLayer `inputs` must all be of the same type\. inputs\[\d+\] is of type (\w+) but "
        r"inputs\[\d+\] is of type (\w+)",
        "it joins {0} and {1}; all inputs must have one type",
        hint="cast them to one type; codes are joined behind their DequantizeLinear",
        rules="QP103 QT410",
    ),
    _attention(
        r"Attention operation was not supported by a dedicated kernel",
        "there is no kernel for this Attention node: kernels need float16 or bfloat16, and certain head sizes",
    ),
    _attention(
        r"only supports Attention nodes with one output",
        "a second output of this Attention node is read, but TensorRT computes only the first",
    ),
    _attention(
        r"Option mask cannot be used together with CausalMaskKind",
        "it has a mask and is causal; TensorRT accepts only one of the two",
    ),
    _attention(r"Setting softcap is not supported in TensorRT Attention", "it has a softcap"),
    _attention(
        r"Setting softmax precision is not supported in TensorRT Attention", "it has the attribute softmax_precision"
    ),
    _attention(r"Key and Value must have the same shape", "its key and its value have heads of different sizes"),
    _attention(
        r"mask must be broadcastable to \[(.*?)\]\. Received mask with shape \[(.*?)\]",
        "its mask has shape [{1}], which does not broadcast to [{0}]",
    ),
)
