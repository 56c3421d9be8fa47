"""Which DQ nodes stand for a bias."""

from qdqtool import ops
from qdqtool.graph.index.qdq import QdqNode


def is_bias(dequantize: QdqNode) -> bool:
    """Whether a DQ is read as the bias of a Conv or Gemm, and as nothing else."""
    uses = dequantize.uses
    products = ((ops.product(use.node), use.index) for use in uses)
    return bool(uses) and all(op is not None and op.bias_input == index for op, index in products)
