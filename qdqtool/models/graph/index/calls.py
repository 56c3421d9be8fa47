"""The calls of local functions: which nodes call a function, and in how many ways the main graph reaches it."""

import contextlib
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter

from qdqtool.models.graph.index.view import GraphView, NodeView
from qdqtool.models.graph.scope import MAIN, ScopePath

MANY = 1 << 16
"""The number of calls of a function that calls itself, and the largest that is counted."""


def call_counts(view: GraphView) -> Mapping[ScopePath, int]:
    """Return in how many ways each local function is called from the main graph, through other functions too.

    A call in the body of a loop counts once. A function that calls itself, or is called by one that does,
    has :data:`MANY` calls; one that nothing calls has none.
    """
    # In the order of the model, which reports keep.
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
    """Return the local functions of which two calls may give an attribute different values.

    An attribute in such a function has no value of its own, only one for each call. A function counts too where one
    of them hands an attribute on to it.
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
    """Return the nodes that have an attribute of such a function."""
    varying = varying_functions(view)
    return frozenset(node for node in view.nodes() if node.is_parametric and node.scope.path[:1] in varying)


def _given(call: NodeView) -> Mapping[str, object]:
    return {attribute.name: call.attribute(attribute.name) for attribute in call.proto.attribute}


def _caller(node: NodeView) -> ScopePath:
    return node.scope.path[:1] if node.scope.in_function else MAIN
