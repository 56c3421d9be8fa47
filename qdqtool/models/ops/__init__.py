"""Properties of operators; each module describes one family.

A module defines ``TRAITS``, ``OP`` or both. ``TRAITS`` describes what each operator does to values, channels, indices
and codes; code that follows tensors calls :func:`traits`. ``OP`` describes how the family is quantized, or why it stays
unquantized; planning calls :func:`get`.

Other packages name an operator only in code that is about this operator: code that writes such a node, folds it,
matches an exporter's pattern, or is a rule about it.
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
from qdqtool.models.ops._traits import NO_HALF, UNKNOWN
from qdqtool.models.ops._traits import CodePath as CodePath
from qdqtool.models.ops._traits import Traits as Traits
from qdqtool.registry import load_unit, unit_names

MAX_MOVES = 64
"""A tensor is followed through at most this many operators that only move values."""


@functools.cache
def families() -> tuple[QuantizableOp, ...]:
    """Return every family with an ``OP``, in the order of module names."""
    units = (load_unit(_package, name) for name in unit_names(_package))
    return tuple(unit.OP for unit in units if hasattr(unit, "OP"))


@functools.cache
def all_traits() -> Mapping[str, Traits]:
    """Return the traits of the operators of the default domain, by operator type."""
    units = (load_unit(_package, name) for name in unit_names(_package))
    return {op_type: known for unit in units for op_type, known in getattr(unit, "TRAITS", {}).items()}


def get(node: NodeView) -> QuantizableOp | None:
    """Return how the operator of ``node`` is quantized, or None if nothing is defined for it."""
    family = _by_name().get((node.domain, node.op_type))
    return family.of(node) if family is not None else None


def product(node: NodeView) -> ProductOp | None:
    """Return the weighted operator (it multiplies an activation with weights) of ``node``, or None for others."""
    found = get(node)
    return found if isinstance(found, ProductOp) else None


def traits(node: NodeView) -> Traits:
    """Return the traits of the operator of ``node``. Operators of other domains have no known traits."""
    return UNKNOWN if node.domain else all_traits().get(node.op_type, UNKNOWN)


def moves_values(node: NodeView) -> bool:
    """Return whether ``node`` only moves values, whatever its attributes are: a pair may be before or after it."""
    return traits(node).moves_values


def moved_from(value: Value) -> Iterator[Value]:
    """Yield a tensor, then the tensors that its values were moved from, up to an operator that computes values."""
    source: Value | None = value
    for _ in range(MAX_MOVES + 1):
        if source is None:
            return
        yield source
        maker = source.producer
        source = maker.input(0) if maker is not None and moves_values(maker) else None


def computing_nodes(node: NodeView) -> Iterator[NodeView]:
    """Yield the nodes that compute with the input of ``node``: its readers if it only reorders axes, else ``node``."""
    output = node.output()
    if not traits(node).reorders_axes or output is None:
        yield node
        return
    for use in output.uses:
        yield from computing_nodes(use.node)


def moves_codes(node: NodeView) -> bool:
    """Return whether ``node`` with its attributes only moves values; such a node may also read codes."""
    known = traits(node)
    return known.moves_values or (known.moves_values_if is not None and known.moves_values_if(node))


def lacks_kernel(node: NodeView, onnx_type: int | None) -> bool:
    """Return whether TensorRT for RTX refuses ``node`` with output of a type, on any GPU."""
    known = traits(node)
    more = NO_HALF if known.no_half_with is not None and node.input_name(known.no_half_with) else frozenset[int]()
    return onnx_type in known.no_kernel | more


def source_axis(node: NodeView, axis: int, rank: int | None) -> int | None:
    """Return the axis of the input of ``node`` that becomes ``axis`` of its output.

    Args:
        node: A node that only reorders axes (its traits have ``reorders_axes``), or any other node.
        axis: An axis of the output, counted from the front.
        rank: The rank of both tensors; None if unknown.

    Returns:
        The axis, or None if it is unknown or the node does more than reorder axes.
    """
    rule = traits(node).source_axis
    return rule(node, axis, rank) if rule is not None else None


def axis_behind(node: NodeView, axis: int, rank: int) -> int | None:
    """Return the output axis that ``axis`` of the input becomes: the inverse of :func:`source_axis`."""
    return next((behind for behind in range(rank) if source_axis(node, behind, rank) == axis), None)


@functools.cache
def _by_name() -> Mapping[tuple[str, str], QuantizableOp]:
    return {(family.domain, op_type): family for family in families() for op_type in family.op_types}
