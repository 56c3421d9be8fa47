"""Find the nodes whose output differs between runs."""

from collections.abc import Iterator

from qdqtool.models import ops
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import NodeView
from qdqtool.models.graph.scope import display


def random_nodes(index: ModelIndex) -> Iterator[NodeView]:
    """Yield the nodes of all scopes that draw random numbers.

    These are the generators of random numbers, and Dropout nodes that are known to be in training mode.
    """
    for node in index.view.nodes():
        rule = ops.traits(node).random_if
        if rule is not None and rule(node, index.constants):
            yield node


def random_cause(index: ModelIndex) -> str:
    """Describe why the outputs of a model differ between runs."""
    found = list(random_nodes(index))
    if not found:
        return "none of its operators is known to draw random numbers"
    first = found[0]
    scope = f" in {display(first.scope.path)}" if first.scope.path else ""
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return f"node '{first.label}' ({first.op_type}){scope} draws random numbers{more}"
