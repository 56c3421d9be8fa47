"""The calls of local functions: which nodes call a function, and by how many paths the main graph reaches it."""

import contextlib
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter

from qdqtool.models.graph.index.view import GraphView, NodeView
from qdqtool.models.graph.scope import MAIN, ScopePath

MANY = 1 << 16
"""The largest number of calls that is counted. A function that calls itself has this number of calls."""


def call_counts(view: GraphView) -> Mapping[ScopePath, int]:
    """Return, for each local function, the number of call paths from the main graph to it.

    A call in the body of a loop counts once. A function that calls itself, directly or through others, has :data:`MANY`
    calls; so do the functions that it calls. A function that nothing calls has 0.
    """
    # The order is that of the model, because reports keep it.
    callers = {scope.path: [_caller(node) for node in scope.calls] for scope in view.functions.values()}
    sorter = TopologicalSorter(callers)
    with contextlib.suppress(CycleError):
        sorter.prepare()
    counts: dict[ScopePath, int] = {MAIN: 1}
    while ready := sorter.get_ready():
        for function in ready:
            counts.setdefault(function, min(sum(counts[caller] for caller in callers.get(function, ())), MANY))
        sorter.done(*ready)
    return {function: counts.get(function, MANY) for function in callers}


def varying_functions(view: GraphView) -> frozenset[ScopePath]:
    """Return the local functions in which an attribute may have different values for different calls.

    In such a function, an attribute that refers to a parameter has no single value. If the function passes the
    parameter to another function, that function is included.
    """
    found = {scope.path for scope in view.scopes if any(_given(call) != _given(scope.calls[0]) for call in scope.calls)}
    waiting = list(found)
    while waiting:
        caller = waiting.pop()
        for scope in view.scopes:
            handed_on = (call.is_parametric and _caller(call) == caller for call in scope.calls)
            if scope.path not in found and any(handed_on):
                found.add(scope.path)
                waiting.append(scope.path)
    return frozenset(found)


def nodes_with_several_values(view: GraphView) -> frozenset[NodeView]:
    """Return the nodes with an attribute that has different values for different calls."""
    varying = varying_functions(view)
    return frozenset(node for node in view.nodes() if node.is_parametric and node.scope.path[:1] in varying)


def _given(call: NodeView) -> Mapping[str, object]:
    return {attribute.name: call.attribute(attribute.name) for attribute in call.proto.attribute}


def _caller(node: NodeView) -> ScopePath:
    return node.scope.path[:1] if node.scope.in_function else MAIN
