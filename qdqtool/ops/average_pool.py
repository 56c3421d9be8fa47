"""Average pooling: linear, yet it makes new values, so a pair does not move through it unchanged."""

from qdqtool.ops._op import QuantizableOp


class _AveragePool(QuantizableOp):
    """One activation."""

    op_types = ("AveragePool", "GlobalAveragePool")


OP = _AveragePool()
