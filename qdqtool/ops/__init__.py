"""All that is known of operators, one family a module.

A module has one or both of two values. ``TRAITS`` says for each of its operators what that does to values, channels,
indices and codes: code that follows tensors asks :func:`traits`. ``OP`` says how the family is quantized, for those
that pairs are placed at, or are not for a reason: planning asks :func:`get`.

The name of an operator stands outside of this room only where code is about that one operator: it writes such a node,
folds it, looks for one exporter's pattern, or is the rule about it.
"""

import functools
from collections.abc import Mapping

from qdqtool import ops as _package
from qdqtool.graph.index.view import NodeView
from qdqtool.ops._channels import ChannelLayout as ChannelLayout
from qdqtool.ops._op import LEAST_CHANNELS as LEAST_CHANNELS
from qdqtool.ops._op import QuantizableOp as QuantizableOp
from qdqtool.ops._traits import UNKNOWN
from qdqtool.ops._traits import Codes as Codes
from qdqtool.ops._traits import Traits as Traits
from qdqtool.registry import load_unit, unit_names


@functools.cache
def families() -> tuple[QuantizableOp, ...]:
    """Every family that has to do with quantization, in the order of their module names."""
    units = (load_unit(_package, name) for name in unit_names(_package))
    return tuple(unit.OP for unit in units if hasattr(unit, "OP"))


@functools.cache
def all_traits() -> Mapping[str, Traits]:
    """The traits of every operator of the default domain that something is known of, by operator name."""
    units = (load_unit(_package, name) for name in unit_names(_package))
    return {op_type: known for unit in units for op_type, known in getattr(unit, "TRAITS", {}).items()}


def get(node: NodeView) -> QuantizableOp | None:
    """How the operator of ``node`` is quantized; None for one that has nothing to do with quantization."""
    family = _by_name().get((node.domain, node.op_type))
    return family.of(node) if family is not None else None


def traits(node: NodeView) -> Traits:
    """What the operator of ``node`` does to values; nothing is stated for an operator of another domain."""
    return UNKNOWN if node.domain else all_traits().get(node.op_type, UNKNOWN)


def moves_values(node: NodeView) -> bool:
    """Whether ``node`` only moves values whatever its attributes are, so that a pair may stand on either side of it."""
    return traits(node).moves_values


def moves_codes(node: NodeView) -> bool:
    """Whether ``node`` only moves values with the attributes that it has: to codes it does what it does to values."""
    known = traits(node)
    return known.moves_values or (known.moves_values_if is not None and known.moves_values_if(node))


@functools.cache
def _by_name() -> Mapping[tuple[str, str], QuantizableOp]:
    return {(family.domain, op_type): family for family in families() for op_type in family.op_types}
