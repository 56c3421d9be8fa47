"""Add, quantized where it joins a residual branch."""

from qdqtool.ops._op import QuantizableOp
from qdqtool.ops._traits import Traits


class _Add(QuantizableOp):
    """Add. One input takes a pair, which depends on the graph: the skip branch, not the branch from a Conv."""

    op_types = ("Add",)
    activation_inputs = (0, 1)


TRAITS = {"Add": Traits(keeps_sign_of_all=True, keeps_channels=True, computes_indices=True, lacks_uint8=True)}
OP = _Add()
