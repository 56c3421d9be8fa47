"""Average pooling: linear, yet it makes new values, so a pair does not move through it unchanged."""

from qdqtool.ops._op import QuantizableOp


class _AveragePool(QuantizableOp):
    """One activation.

    NVIDIA's placement guide moves pairs through it. TensorRT for RTX does not: a pair in front becomes a round trip
    through int8 inside the kernel before, and the pool reads float all the same.
    """

    op_types = ("AveragePool", "GlobalAveragePool")
    stays_float = "TensorRT for RTX averages in float, so that a pair in front would only round"
    on_request = True


OP = _AveragePool()
