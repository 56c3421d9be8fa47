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
from qdqtool.ops._op import QuantizableOp as QuantizableOp
from qdqtool.ops._product import LEAST_CHANNELS as LEAST_CHANNELS
from qdqtool.ops._product import ProductOp as ProductOp
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


def product(node: NodeView) -> ProductOp | None:
    """How ``node`` multiplies an activation with weights; None where it does not."""
    found = get(node)
    return found if isinstance(found, ProductOp) else None


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


def source_axis(node: NodeView, axis: int, rank: int | None) -> int | None:
    """Which axis of what ``node`` reads becomes ``axis`` of what it makes.

    Args:
        node: A node that changes nothing but the order of axes: one whose traits have ``reorders_axes``.
        axis: An axis, counted from the front.
        rank: The rank of both tensors; None where it is unknown.

    Returns:
        None where the axis cannot be told, and for any other node.
    """
    rule = traits(node).source_axis
    return rule(node, axis, rank) if rule is not None else None


def axis_behind(node: NodeView, axis: int, rank: int) -> int | None:
    """Which axis of what such a node makes has the entries of ``axis`` of what it reads; None as above."""
    return next((behind for behind in range(rank) if source_axis(node, behind, rank) == axis), None)


@functools.cache
def _by_name() -> Mapping[tuple[str, str], QuantizableOp]:
    return {(family.domain, op_type): family for family in families() for op_type in family.op_types}
