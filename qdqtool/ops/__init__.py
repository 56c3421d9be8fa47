"""What may be quantized: one operator family a module, ``OP`` the value."""

import functools
from collections.abc import Mapping

from qdqtool import ops as _package
from qdqtool.graph.view import NodeView
from qdqtool.ops._op import LEAST_CHANNELS as LEAST_CHANNELS
from qdqtool.ops._op import QuantizableOp as QuantizableOp
from qdqtool.registry import load_unit, unit_names


@functools.cache
def by_op_type() -> Mapping[str, QuantizableOp]:
    """Every quantizable operator of the default domain, by operator name."""
    families = (load_unit(_package, name).OP for name in unit_names(_package))
    return {op_type: family for family in families for op_type in family.op_types}


def get(node: NodeView) -> QuantizableOp | None:
    """What is known of the operator of ``node``; None for one that is never quantized."""
    return by_op_type().get(node.op_type) if not node.domain else None
