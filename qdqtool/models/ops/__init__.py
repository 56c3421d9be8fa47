"""Properties of operators, one module for each family.

A module has one or both of two values. ``TRAITS`` says what each of its operators does to values, channels, indices and
codes; code that follows tensors asks :func:`traits`. ``OP`` says how the family is quantized, for families that get
pairs and for those that stay float for a reason; planning asks :func:`get`.

Other packages name an operator only where the code is about this one operator: it writes such a node, folds it, looks
for a pattern of exporters, or is the rule about it.
"""

import functools
from collections.abc import Iterator, Mapping

from qdqtool.models import ops as _package
from qdqtool.models.graph.index.view import NodeView, Value
from qdqtool.models.ops._product import LEAST_CHANNELS as LEAST_CHANNELS
from qdqtool.models.ops._product import ChannelLayout as ChannelLayout
from qdqtool.models.ops._product import ProductOp as ProductOp
from qdqtool.models.ops._product import QuantizableOp as QuantizableOp
from qdqtool.models.ops._span import Span as Span
from qdqtool.models.ops._span import constant_span as constant_span
from qdqtool.models.ops._span import same_span as same_span
from qdqtool.models.ops._span import summed_span as summed_span
from qdqtool.models.ops._traits import UNKNOWN
from qdqtool.models.ops._traits import CodePath as CodePath
from qdqtool.models.ops._traits import Traits as Traits
from qdqtool.registry import load_unit, unit_names

MAX_MOVES = 64
"""The most operators in sequence that only move values, through which a tensor is followed."""


@functools.cache
def families() -> tuple[QuantizableOp, ...]:
    """Return every family that has to do with quantization, in the order of their module names."""
    units = (load_unit(_package, name) for name in unit_names(_package))
    return tuple(unit.OP for unit in units if hasattr(unit, "OP"))


@functools.cache
def all_traits() -> Mapping[str, Traits]:
    """Return the traits of the operators of the default domain, by operator name."""
    units = (load_unit(_package, name) for name in unit_names(_package))
    return {op_type: known for unit in units for op_type, known in getattr(unit, "TRAITS", {}).items()}


def get(node: NodeView) -> QuantizableOp | None:
    """Return how the operator of ``node`` is quantized; None if it has nothing to do with quantization."""
    family = _by_name().get((node.domain, node.op_type))
    return family.of(node) if family is not None else None


def product(node: NodeView) -> ProductOp | None:
    """Return how ``node`` multiplies an activation with weights; None if it does not."""
    found = get(node)
    return found if isinstance(found, ProductOp) else None


def traits(node: NodeView) -> Traits:
    """Return what the operator of ``node`` does to values. Nothing is known of operators of other domains."""
    return UNKNOWN if node.domain else all_traits().get(node.op_type, UNKNOWN)


def moves_values(node: NodeView) -> bool:
    """Return whether ``node`` only moves values, whatever its attributes: a pair may stand on either side of it."""
    return traits(node).moves_values


def moved_from(value: Value) -> Iterator[Value]:
    """Yield a tensor, then those whose values it holds, moved or selected, through :data:`MAX_MOVES` operators."""
    source: Value | None = value
    for _ in range(MAX_MOVES + 1):
        if source is None:
            return
        yield source
        maker = source.producer
        source = maker.input(0) if maker is not None and moves_values(maker) else None


def computing_nodes(node: NodeView) -> Iterator[NodeView]:
    """Yield the operators that compute with what ``node`` reads: itself, or those behind it if it moves a weight."""
    output = node.output()
    if not traits(node).reorders_axes or output is None:
        yield node
        return
    for use in output.uses:
        yield from computing_nodes(use.node)


def moves_codes(node: NodeView) -> bool:
    """Return whether ``node`` only moves values, with the attributes that it has, so that it may also read codes."""
    known = traits(node)
    return known.moves_values or (known.moves_values_if is not None and known.moves_values_if(node))


def source_axis(node: NodeView, axis: int, rank: int | None) -> int | None:
    """Return the axis of the input of ``node`` that becomes ``axis`` of its output.

    Args:
        node: A node that changes only the order of axes: one whose traits have ``reorders_axes``.
        axis: An axis, counted from the front.
        rank: The rank of both tensors; None where it is unknown.

    Returns:
        None where the axis is unknown, and for any other node.
    """
    rule = traits(node).source_axis
    return rule(node, axis, rank) if rule is not None else None


def axis_behind(node: NodeView, axis: int, rank: int) -> int | None:
    """Return the axis of the output of such a node that ``axis`` of its input becomes; None as above."""
    return next((behind for behind in range(rank) if source_axis(node, behind, rank) == axis), None)


@functools.cache
def _by_name() -> Mapping[tuple[str, str], QuantizableOp]:
    return {(family.domain, op_type): family for family in families() for op_type in family.op_types}
