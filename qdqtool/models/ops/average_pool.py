"""Average pooling: it is linear but computes new values, so a pair cannot be moved through it unchanged."""

from qdqtool.models.ops._product import QuantizableOp
from qdqtool.models.ops._span import of_known, same_span
from qdqtool.models.ops._traits import NO_BFLOAT16, Traits, over_space


class _AveragePool(QuantizableOp):
    """Average pooling of one activation.

    NVIDIA's placement guide moves pairs through it. TensorRT for RTX does not: a pair before it becomes a round trip
    through int8 inside the previous kernel, and the pool still reads float.
    """

    op_types = ("AveragePool", "GlobalAveragePool")
    stays_float = "TensorRT for RTX averages in float, so a pair before it would only add rounding"
    on_request = True


TRAITS = {
    # Zeros of the padding may be included in the average.
    "AveragePool": Traits(
        span=of_known(lambda span: span.including(0)), keeps_sign=True, keeps_channels=True, factor_rule=over_space
    ),
    "GlobalAveragePool": Traits(
        span=same_span, keeps_sign=True, keeps_channels=True, factor_rule=over_space, is_layer=True, lacks_int8=True
    ),
    "LpPool": Traits(no_kernel=NO_BFLOAT16),
}
OP = _AveragePool()
