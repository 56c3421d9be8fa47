"""Refusals of Attention nodes; the same computation builds if it is written with MatMul and Softmax."""

from functools import partial

from qdqtool.engines.tensorrt.known_refusals._known import known
from qdqtool.engines.tensorrt.operator_hints import inlining_hint

_attention = partial(known, hint=inlining_hint("Attention"), rules="QT402")

ENTRIES = (
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
