"""The calls of local functions: which nodes call a function, and in how many ways the main graph reaches it."""

from collections.abc import Mapping

import onnx

from qdqtool.models.graph.index.view import DEFAULT_DOMAINS, GraphView, NodeView
from qdqtool.models.graph.scope import MAIN, ScopePath

MANY = 1 << 16
"""The number of calls of a function that calls itself, and the largest that is counted."""

FunctionId = tuple[str, str, str]
"""Domain, name and overload; the default domain is empty."""


def function_scopes(view: GraphView) -> dict[FunctionId, ScopePath]:
    """Return the scope of every local function."""
    return {
        (_domain(scope.container.domain), scope.container.name, scope.container.overload): scope.path
        for scope in view.scopes
        if isinstance(scope.container, onnx.FunctionProto)
    }


def called_function(node: NodeView) -> FunctionId:
    """Return the id of the local function that a node would call: it calls one if the model has one with this id."""
    return _domain(node.proto.domain), node.proto.op_type, node.proto.overload


def call_sites(view: GraphView) -> dict[ScopePath, list[NodeView]]:
    """Return every node that calls a local function, by the scope of the function."""
    return {scope.path: scope.calls for scope in view.scopes if scope.calls}


def call_counts(view: GraphView) -> Mapping[ScopePath, int]:
    """Return in how many ways each local function is called from the main graph, through other functions too.

    A call in the body of a loop counts once. A function that calls itself, or is called by one that does,
    has :data:`MANY` calls; one that nothing calls has none.
    """
    functions = dict.fromkeys(function_scopes(view).values())  # in the order of the model, which reports keep
    callers = {function: [_caller(node) for node in nodes] for function, nodes in call_sites(view).items()}
    # From the main graph downwards, and without recursion: a hostile model may nest functions to any depth.
    open_calls = {function: sum(caller != MAIN for caller in callers.get(function, ())) for function in functions}
    ready = [function for function, count in open_calls.items() if not count]
    callees = _inverted(callers)
    counts: dict[ScopePath, int] = {MAIN: 1}
    while ready:
        function = ready.pop()
        counts[function] = min(sum(counts[caller] for caller in callers.get(function, ())), MANY)
        for callee in callees.get(function, ()):
            open_calls[callee] -= 1
            if not open_calls[callee]:
                ready.append(callee)
    return {function: counts.get(function, MANY) for function in functions}


def varying_functions(view: GraphView) -> frozenset[ScopePath]:
    """Return the local functions of which two calls may give an attribute different values.

    An attribute in such a function has no value of its own, only one for each call. A function counts too where one
    of them hands an attribute on to it.
    """
    found = {scope.path for scope in view.scopes if _differ([_given(call) for call in scope.calls])}
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


def _differ(values: list[Mapping[str, object]]) -> bool:
    return any(each != values[0] for each in values)


def _caller(node: NodeView) -> ScopePath:
    return node.scope.path[:1] if node.scope.in_function else MAIN


def _inverted(callers: Mapping[ScopePath, list[ScopePath]]) -> dict[ScopePath, list[ScopePath]]:
    callees: dict[ScopePath, list[ScopePath]] = {}
    for function, found in callers.items():
        for caller in found:
            callees.setdefault(caller, []).append(function)
    return callees


def _domain(domain: str) -> str:
    return "" if domain in DEFAULT_DOMAINS else domain
