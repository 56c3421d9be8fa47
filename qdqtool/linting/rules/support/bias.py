"""Recognize the DQ of a bias."""

from qdqtool.models import ops
from qdqtool.models.graph.index.qdq import QdqNode


def is_bias(dequantize: QdqNode) -> bool:
    """Return whether a DQ is read only as the bias of a Conv or Gemm."""
    uses = dequantize.uses
    products = ((ops.product(use.node), use.index) for use in uses)
    return bool(uses) and all(op is not None and op.bias_input == index for op, index in products)
