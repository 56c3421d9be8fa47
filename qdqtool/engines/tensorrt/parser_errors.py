"""Translate TensorRT's error messages: strip the noise, explain known refusals in plain words, and say how to fix them.

A message that is not in :mod:`qdqtool.engines.tensorrt.known_refusals` is kept, without source positions.
"""

import re
from dataclasses import replace
from typing import Any

from qdqtool.engines.report import Refusal
from qdqtool.engines.tensorrt.inspector import TRT_TYPES, onnx_type
from qdqtool.engines.tensorrt.known_refusals import BY_OPERATOR, KNOWN, KnownRefusal
from qdqtool.engines.tensorrt.operator_hints import hint_for

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
_SOURCE_PLACE = re.compile(r"\.?\s{1,9}In [\w:()<>]{1,300} at /?[\w/.+-]{1,300}:\d{1,6}\)?")
# Unsupported operators are refused by `assert(false)`: this is their whole message.
_UNSUPPORTED = "false"
# A condition in the parser's C++ code, followed by words for people.
_SAID = re.compile(r'&& "(?P<words>.+)"')
# The builder names a node only in its text: "IScaleLayer w_DQ: w_DQ: odd volume".
_NAMED_LAYER = re.compile(r"^(?:I\w+Layer(?:/I\w+Layer)? )(?P<node>\S+?)(?::| has `)")
_QDQ = frozenset({"QuantizeLinear", "DequantizeLinear"})
_EMPTY_NAME_HINT = "`qdqtool validate --target tensorrt-rtx MODEL` names the input"
_IMPORTER = re.compile(r"import(?!Inputs?$|Initializers$|Fallback)(?P<op_type>[A-Z]\w+)")
_WORD = re.compile(r"\w+")
# The compiler inside the builder has its own names for types.
_GRAPH_TYPES = {
    "i8": "int8",
    "i32": "int32",
    "i64": "int64",
    "f8": "float8e4m3fn",
    "fp4_e2m1": "float4e2m1",
    "f16": "float16",
    "b16": "bfloat16",
    "f32": "float32",
    "bool": "bool",
}
_NAME = re.compile(r"\S+")
_LONGEST_NAME, _LONGEST_MESSAGE = 512, 4096
"""Number of characters that are searched: some patterns take quadratic time. Real messages have fewer than 1,000."""
_LISTED = frozenset({"or", *_GRAPH_TYPES, *TRT_TYPES})


def strip_noise(message: str) -> str:
    """Return a message as one line without CUDA noise, source positions and uninformative wrappers."""
    text = "\n".join(line for line in message.split("\n") if not _NOISE_LINE.search(line))
    for prefix in _PREFIXES:
        text = prefix.sub("", text, count=1)
    text = _SOURCE_PLACE.sub("", text).replace("\n", " ").strip()
    # _SOURCE_PLACE may have taken the closing bracket of "Error Code 4: ... (text In f at file:1)" with it.
    if text.startswith("(") and not text.endswith(")"):
        text = text[1:]
    return text.removeprefix("(").removesuffix(")").strip() if text.startswith("(") else text


def translate(message: str, *, node: str | None = None, op_type: str | None = None) -> Refusal:
    """Translate one message to a refusal; a very long name or message is cut in the middle."""
    message = _cut(_NAME.sub(lambda name: _cut(name[0], _LONGEST_NAME), message), _LONGEST_MESSAGE)
    plain = strip_noise(message)
    for known in KNOWN:
        found = known.pattern.search(message)
        if found is not None:
            return _explained_by(known, found, Refusal(reason="", message=plain, node=node, op_type=op_type))
    return _without_entry(Refusal(reason=plain, message=plain, node=node or _named(plain), op_type=op_type))


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most // 2]}…{text[-most // 2 :]}"


def _explained_by(known: KnownRefusal, found: re.Match[str], refusal: Refusal) -> Refusal:
    words = [_tidy(group) for group in found.groups()]
    named = found.groupdict()
    hint = known.hint.format(*words) if known.hint is not None else None
    return replace(
        refusal,
        reason=known.reason.format(*words),
        node=refusal.node or named.get("node") or _named(refusal.message),
        tensor=named.get("tensor"),
        hint=hint_for(refusal.op_type) if known.hint == BY_OPERATOR else hint,
        rules=known.rules,
    )


def _without_entry(refusal: Refusal) -> Refusal:
    """Return a refusal for an empty message, or for a message without an entry in the table."""
    if refusal.message not in {"", _UNSUPPORTED}:
        return replace(refusal, reason=_own_words(refusal.message), explained=False)
    if refusal.op_type in _QDQ:
        # An empty zero point name gives "Invalid Node - QuantizeLinear_3" and no reason, which strip_noise removes.
        reason = "the parser gives no reason; a known cause is a zero point with the empty name ''"
        return replace(refusal, reason=reason, hint=_EMPTY_NAME_HINT, rules=("QT404", "QS008", "QP103"))
    if refusal.op_type is None:
        return replace(refusal, reason="no reason was given", explained=False)
    reason = f"operator {refusal.op_type} is not supported"
    return replace(refusal, reason=reason, hint=hint_for(refusal.op_type), rules=("QT403", "QT420"))


def parser_refusals(errors: list[dict[str, Any]], further: list[dict[str, Any]]) -> tuple[Refusal, ...]:
    """Translate the parser's errors, and those errors of ``further`` nodes that have a known message."""
    return tuple(dict.fromkeys(map(parser_refusal, explained(errors, further))))


def explained(errors: list[dict[str, Any]], further: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the parser's errors, and those errors of ``further`` nodes that have a known message.

    Further errors come from a model from which refused nodes were removed. An unknown message may be a consequence of
    this removal, so it is left out.
    """
    return [*errors, *(error for error in further if _is_known(error))]


def _is_known(error: dict[str, Any]) -> bool:
    return bool(error["message"]) and translate(error["message"], op_type=error["operator"] or None).explained


def parser_refusal(error: dict[str, Any]) -> Refusal:
    """Translate one error of the parser, in the form that the child process writes."""
    op_type = _operator(error)
    node = error["name"] or (f"number {error['node']}" if error["node"] >= 0 else None)
    path = " in ".join([f"'{call}'" for call in reversed(error["calls"])])
    refusal = translate(error["message"], node=node, op_type=op_type)
    return replace(refusal, reason=f"{refusal.reason}, in the call {path}") if path else refusal


def _operator(error: dict[str, Any]) -> str | None:
    # Some checks do not name the node, but the function that imports its operator: importScatterElements.
    imported = _IMPORTER.fullmatch(error["function"])
    return error["operator"] or (imported["op_type"] if imported is not None else None)


def builder_refusals(log: list[tuple[str, str]], message: str | None) -> tuple[Refusal, ...]:
    """Translate the builder's errors in order, without noise and repetitions."""
    texts = ([message] if message else []) + [text for severity, text in log if "ERROR" in severity]
    found: dict[str, Refusal] = {}
    for text in texts:
        refusal = translate(text)
        if refusal.message:
            found.setdefault(refusal.reason, refusal)
    return tuple(found.values()) or (Refusal(reason="the builder gave no reason", explained=False),)


def _own_words(plain: str) -> str:
    said = _SAID.search(plain)
    words = said["words"].rstrip(".") if said is not None else plain
    first = words.split(maxsplit=1)[0]
    return words[0].lower() + words[1:] if first.istitle() else words


def _tidy(group: str | None) -> str:
    """Return one group of a message, with ONNX's names of types."""
    text = strip_noise(group or "").strip(" .)'`") or "unknown"
    words = _WORD.findall(text)
    return _WORD.sub(_onnx_word, text) if all(word.lower() in _LISTED for word in words) else text


def _onnx_word(word: re.Match[str]) -> str:
    name = word[0].lower()
    return word[0] if name == "or" else _GRAPH_TYPES.get(name) or onnx_type(name)


def _named(plain: str) -> str | None:
    found = _NAMED_LAYER.match(plain)
    return found["node"] if found is not None else None
