"""The operators of QONNX, the dialect of Brevitas, FINN and hls4ml: names, and stand-ins for shape inference.

``Quant`` quantizes and dequantizes in one node: inputs x, scale, zero point and bit width; attributes ``signed``,
``narrow`` and ``rounding_mode``. Newer files call it ``IntQuant``. ONNX and ONNX Runtime know none of them.
"""

import onnx

from qdqtool.models.graph.scope import walk

DOMAINS = frozenset({"qonnx.custom_op.general", "onnx.brevitas", "finn.custom_op.general"})
"""Brevitas wrote ``onnx.brevitas`` before the dialect had a home, QONNX itself ``finn.custom_op.general``."""

QUANT = frozenset({"Quant", "IntQuant"})
BIPOLAR = "BipolarQuant"
QUANTIZERS = QUANT | {BIPOLAR, "FloatQuant", "Trunc"}
"""Operators whose output has the shape and type of input 0."""


def is_quantizer(node: onnx.NodeProto) -> bool:
    """Whether a node is a quantizer of QONNX."""
    return node.domain in DOMAINS and node.op_type in QUANTIZERS


def with_identities(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model in which Identity stands for each quantizer, node for node; the model itself if it has none."""
    if not any(is_quantizer(node) for _, container in walk(proto) for node in container.node):
        return proto
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    for _, container in walk(copy):
        for node in filter(is_quantizer, container.node):
            node.domain, node.op_type = "", "Identity"
            del node.input[1:]
            node.ClearField("attribute")
    return copy
