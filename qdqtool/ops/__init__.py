"""What may be quantized: one operator family a module, ``OP`` the value."""

import functools
from collections.abc import Mapping

from qdqtool import ops as _package
from qdqtool.graph.index.view import NodeView
from qdqtool.ops._op import LEAST_CHANNELS as LEAST_CHANNELS
from qdqtool.ops._op import QuantizableOp as QuantizableOp
from qdqtool.registry import load_unit, unit_names


@functools.cache
def families() -> tuple[QuantizableOp, ...]:
    """Every operator family, in the order of their module names."""
    return tuple(load_unit(_package, name).OP for name in unit_names(_package))


@functools.cache
def by_op_type() -> Mapping[str, QuantizableOp]:
    """Every quantizable operator of the default domain, by operator name."""
    return {op_type: family for (domain, op_type), family in _by_name().items() if not domain}


def get(node: NodeView) -> QuantizableOp | None:
    """What is known of the operator of ``node``; None for one that has nothing to do with quantization."""
    family = _by_name().get((node.domain, node.op_type))
    return family.of(node) if family is not None else None


@functools.cache
def _by_name() -> Mapping[tuple[str, str], QuantizableOp]:
    return {(family.domain, op_type): family for family in families() for op_type in family.op_types}
