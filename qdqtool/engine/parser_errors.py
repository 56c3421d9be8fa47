"""Translate TensorRT's error messages: strip the noise, explain known refusals in plain words, and say how to fix them.

The patterns are messages that the parser and the builder of TensorRT for RTX 1.7.1 printed. A message that no pattern
matches is passed on as it is, without the noise.
"""

import re
from dataclasses import dataclass
from typing import Any

from qdqtool.engine.builder import Refusal
from qdqtool.engine.layer_dump import TRT_TYPES, onnx_type

# On a machine without a GPU, TensorRT appends "[checkMacros.cpp::catchCudaError...] cudaError 35 ..." to messages.
_NOISE_LINE = re.compile(r"\[?checkMacros|cudaError \d+|CUDA driver version|^\s*$")
_PREFIXES = (
    re.compile(r"^Invalid Node - .*\n?"),
    re.compile(r"^\[[\w.]+::\w+::\d+\] "),
    re.compile(r"^[\w:]+(?:\([^()]*\))?: (?=Error Code)"),
    re.compile(r"^Error Code \d+: [\w ]+? (?=\()"),
    re.compile(r"^Assertion failed: .*?: (?=[A-Z`])"),
    re.compile(r"^Parameter check failed, condition: .*?\. (?=[A-Z])"),
    re.compile(r"^\[[\w.: ]+\] (?:MyelinCheckException: [\w.]+:\d+: )?"),
)
# Messages name the place in the library: "In validateTypes at /_src/optimizer/common/nodes/convolutionNode.cpp:88".
_SOURCE_PLACE = re.compile(r"\.?\s+In [\w:()<>]+ at /?[\w/.+-]+:\d+\)?")
# The builder names a node only in the text: "IScaleLayer w_DQ: w_DQ: odd volume".
_NAMED_LAYER = re.compile(r"^(?:I\w+Layer(?:/I\w+Layer)? )(?P<node>\S+?)(?::| has `)")


@dataclass(frozen=True, slots=True)
class _Known:
    pattern: re.Pattern[str]
    reason: str
    hint: str | None = None


def _known(pattern: str, reason: str, hint: str | None = None) -> _Known:
    return _Known(re.compile(pattern, re.DOTALL), reason, hint)


_VALIDATE = "`qdqtool validate` names the tensor and the values"

_KNOWN = (
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
        "shift the codes by 128 to int8 with zero point 0: the values stay the same",
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
        r"Plugin not found|failed to load \w+ plugin|creator && ",
        "TensorRT has no such operator, nor a plugin of that name",
        "export the model without it, or quantize it with QuantizeLinear and DequantizeLinear nodes",
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
        "convert the attention to float16",
    ),
    _known(
        r"(Assertion tScope\.getType\(\) != ScopeType::kUNDEFINED failed)",
        "the builder fails with an internal error in the control flow (If, Loop) of the model, quantized or not ({0})",
        "fix the input shapes, so that If nodes can be folded: --input-shapes NAME:1x3x320x320",
    ),
    _known(
        r"within workspace|Could not find any implementation for node (.+?)\.",
        "it has no kernel for a node in this precision",
        "leave that node unquantized",
    ),
)


def strip_noise(message: str) -> str:
    """Return a message as one line without CUDA noise, source places and wrappers that carry no information."""
    text = "\n".join(line for line in message.split("\n") if not _NOISE_LINE.search(line))
    for prefix in _PREFIXES:
        text = prefix.sub("", text, count=1)
    text = _SOURCE_PLACE.sub("", text).replace("\n", " ").strip()
    # _SOURCE_PLACE may have taken the closing bracket of "Error Code 4: ... (text In f at file:1)" with it.
    if text.startswith("(") and not text.endswith(")"):
        text = text[1:]
    return text.removeprefix("(").removesuffix(")").strip() if text.startswith("(") else text


def translate(message: str, *, node: str | None = None, op_type: str | None = None) -> Refusal:
    """Translate one message to a refusal.

    Args:
        message: The builder's own words.
        node: Label of the node, where the builder names one.
        op_type: Operator of that node.
    """
    plain = strip_noise(message)
    for known in _KNOWN:
        found = known.pattern.search(message)
        if found is not None:
            groups = [_tidy(group) for group in found.groups()]
            return Refusal(
                reason=known.reason.format(*groups),
                message=plain,
                node=node or _named(plain),
                op_type=op_type,
                hint=known.hint,
            )
    return Refusal(reason=_fallback(plain, op_type), message=plain, node=node or _named(plain), op_type=op_type)


def parser_refusals(errors: list[dict[str, Any]], further: list[dict[str, Any]]) -> tuple[Refusal, ...]:
    """Translate the parser's errors, and those of the ``further`` nodes whose message is known.

    The further ones come from a model from which refused nodes were cut out. An unknown message among them may be a
    consequence of the cut, so it is left out.
    """
    known = [error for error in further if any(entry.pattern.search(error["message"]) for entry in _KNOWN)]
    return tuple(dict.fromkeys(parser_refusal(error) for error in (*errors, *known)))


def parser_refusal(error: dict[str, Any]) -> Refusal:
    """Translate one error of the parser, as the child process records it."""
    op_type = error["operator"] or None
    node = error["name"] or (f"number {error['node']}" if error["node"] >= 0 else None)
    path = " in ".join([f"'{call}'" for call in reversed(error["calls"])])
    refusal = translate(error["message"], node=node, op_type=op_type)
    if not path:
        return refusal
    return Refusal(
        reason=f"{refusal.reason}, in the call {path}",
        message=refusal.message,
        node=refusal.node,
        op_type=op_type,
        hint=refusal.hint,
    )


def builder_refusals(log: list[tuple[str, str]], message: str | None) -> tuple[Refusal, ...]:
    """Translate the builder's errors in their order, without noise and repetitions."""
    texts = ([message] if message else []) + [text for severity, text in log if "ERROR" in severity]
    found: dict[str, Refusal] = {}
    for text in texts:
        refusal = translate(text)
        if refusal.message:
            found.setdefault(refusal.reason, refusal)
    return tuple(found.values()) or (Refusal(reason="the builder gave no reason"),)


def _fallback(plain: str, op_type: str | None) -> str:
    # An empty zero point name gives "Invalid Node - QuantizeLinear_3" and no reason, which strip_noise removes.
    if not plain and op_type in {"QuantizeLinear", "DequantizeLinear"}:
        return "the parser gives no reason; a zero point given as the empty name '' is one that it does not name"
    # Unsupported operators are refused by `assert(false)`: their message is the literal word "false".
    if plain in {"", "false"}:
        return f"operator {op_type} is not supported" if op_type else "no reason was given"
    return plain[0].lower() + plain[1:] if plain[:2].istitle() else plain


def _tidy(group: str | None) -> str:
    word = strip_noise(group or "").strip(" .)'`") or "unknown"
    return onnx_type(word) if word.lower() in TRT_TYPES else word


def _named(plain: str) -> str | None:
    found = _NAMED_LAYER.match(plain)
    return found["node"] if found is not None else None
