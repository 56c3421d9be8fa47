"""Hints for operators that TensorRT does not have, or does not have for some types, by kind of operator."""

import re
import shlex
from pathlib import Path

from qdqtool.models.ops.microsoft import WRITTEN_AS_ONNX, WRITTEN_HINT

_PASTED = re.compile(r"`[^`]*`")
_MODEL = re.compile(r"\bMODEL\b")


def with_path(hint: str, path: Path) -> str:
    """Return a hint with the path in place of the word MODEL in its commands, which are in backticks."""
    quoted = shlex.quote(str(path))
    return _PASTED.sub(lambda command: _MODEL.sub(lambda _: quoted, command[0]), hint)


FUNCTIONS = frozenset(
    {"Attention", "CausalConvWithState", "Celu", "CenterCropPad", "LayerNormalization", "LinearAttention", "SwiGLU"}
)
"""Operators that ONNX defines as functions of other operators, and that can be built in this form."""

_QUANTIZED = ("DynamicQuantize", "MatMulInteger", "ConvInteger", "QAttention", "QMoE", "QOrdered")
_NORMALIZED = ("QLinear", "QGemm", "MatMulNBits", "GatherBlockQuantized")
_QONNX = frozenset({"Quant", "IntQuant"})
_TRAINING = frozenset(
    {"NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss", "Adagrad", "Adam", "Momentum", "Gradient"}
)
_NO_TENSORS = ("Sequence", "Optional", "String", "Regex", "TfIdf", "SplitToSequence", "ConcatFromSequence", "Image")

PLUGIN_HINT = "if you have a plugin of this name, `--plugins LIB` loads it and `--plugin-ops DOMAIN::NAME` declares it"
"""The hint that names the options for plugins."""
_ANY = f"export the model without it, or run that part outside the engine; {PLUGIN_HINT}"
_NORMALIZE_HINT = "`qdqtool normalize MODEL -o OUT.onnx` writes it as QuantizeLinear and DequantizeLinear"
_KINDS: tuple[tuple[tuple[str, ...], frozenset[str], str], ...] = (
    (_NORMALIZED, _QONNX, _NORMALIZE_HINT),
    ((), WRITTEN_AS_ONNX - FUNCTIONS, WRITTEN_HINT),
    (_QUANTIZED, frozenset(), "quantize with QuantizeLinear and DequantizeLinear nodes"),
    ((), frozenset({"DequantizeLinear"}), "shift the codes by 128 to int8 with zero point 0: the values stay the same"),
    ((), _TRAINING, "it belongs to training: export the model for inference"),
    (
        _NO_TENSORS,
        frozenset(),
        "TensorRT does not support sequences, strings and images: run that part outside the engine",
    ),
)
"""Each row has prefixes of operator names, whole names, and a hint; the first row that fits is used."""


def hint_for(op_type: str | None) -> str:
    """Return a hint on how to replace an operator.

    Args:
        op_type: The operator in TensorRT's message, without its domain; None if the message names none.
    """
    name = op_type or ""
    if name in FUNCTIONS:
        return inlining_hint(name)
    return next((hint for begins, names, hint in _KINDS if name.startswith(begins) or name in names), _ANY)


def inlining_hint(op_type: str) -> str:
    """Return the command that replaces an operator of ONNX by the operators that define it."""
    return (
        f"to replace {op_type} by the operators that define it, run `"
        "python -c 'import sys, onnx, onnx.inliner as i; onnx.save(i.inline_selected_functions("
        f'onnx.load(sys.argv[1]), [("", "{op_type}")], inline_schema_functions=True), sys.argv[2])\' MODEL OUT.onnx`'
    )
