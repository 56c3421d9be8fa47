"""Add, quantized if it joins a residual branch."""

from qdqtool.models.ops._product import QuantizableOp
from qdqtool.models.ops._span import of_known, summed_span
from qdqtool.models.ops._traits import Traits


class _Add(QuantizableOp):
    """Add. One input gets a pair: the skip branch in the graph, not the branch from a Conv."""

    op_types = ("Add",)
    activation_inputs = (0, 1)


TRAITS = {
    "Add": Traits(
        span=of_known(summed_span), keeps_sign_of_all=True, keeps_channels=True, computes_indices=True, lacks_uint8=True
    )
}
OP = _Add()
