"""What parser and builder refuse in Attention nodes; what builds is the same as MatMul and Softmax."""

from qdqtool.engines.tensorrt.known_refusals._known import known
from qdqtool.engines.tensorrt.operator_hints import inlining_hint

_OTHERS = inlining_hint("Attention")

ENTRIES = (
    known(
        r"Attention operation was not supported by a dedicated kernel",
        "there is no kernel for this Attention node: it wants float16 or bfloat16, and heads of some sizes",
        hint=_OTHERS,
        rules="QT402",
    ),
    known(
        r"only supports Attention nodes with one output",
        "something reads a second output of this Attention node; TensorRT computes the first",
        hint=_OTHERS,
        rules="QT402",
    ),
    known(
        r"Option mask cannot be used together with CausalMaskKind",
        "it has a mask and is causal; TensorRT takes one of both",
        hint=_OTHERS,
        rules="QT402",
    ),
    known(
        r"Setting softcap is not supported in TensorRT Attention",
        "it has a softcap",
        hint=_OTHERS,
        rules="QT402",
    ),
    known(
        r"Setting softmax precision is not supported in TensorRT Attention",
        "it has the attribute softmax_precision",
        hint=_OTHERS,
        rules="QT402",
    ),
    known(
        r"Key and Value must have the same shape",
        "its key and its value have heads of different sizes",
        hint=_OTHERS,
        rules="QT402",
    ),
    known(
        r"mask must be broadcastable to \[(.*?)\]\. Received mask with shape \[(.*?)\]",
        "its mask has shape [{1}], which does not go with [{0}]",
        hint=_OTHERS,
        rules="QT402",
    ),
)
