"""Cut few nodes out of the main graph: their inputs become graph inputs, and their outputs become graph outputs."""

import copy
from collections import deque
from collections.abc import Collection, Iterable

from qdqtool.jobs.reduction.failure import named_in, numbered_in
from qdqtool.jobs.reduction.minimal_subset import Guidance, minimal_subset
from qdqtool.jobs.reduction.search import Search
from qdqtool.jobs.reduction.subgraph import Subgraphs, pruned, with_proto
from qdqtool.models.graph.index.view import NodeView, Value
from qdqtool.models.graph.model import Model
from qdqtool.models.graph.scope import walk


def bypass_nodes(search: Search) -> None:
    """Bypass nodes of the main graph. Unlike cutting, this keeps the remaining nodes connected."""
    graph = Subgraphs(search.best, search.kept_unused)
    keys = [graph.nodes[index].key for index in _ways(graph)] if len(graph.layers) > 1 else []
    if keys:
        others = {node.key for node in graph.nodes} - {*keys}
        minimal_subset(keys, lambda kept: search.accepts(bypassed(graph, others.union(kept))))


def bypassed(graph: Subgraphs, kept: Collection[tuple[str, ...]]) -> Model | None:
    """Return a model without the nodes that can be bypassed; None if no node can be, or if no output would be left."""
    ways = {index: way for index, way in _ways(graph).items() if graph.nodes[index].key not in kept}
    return _without(graph, ways) if ways else None


def _ways(graph: Subgraphs) -> dict[int, str]:
    """Return, for each node that can be bypassed, the name of the input that replaces its output."""
    return {index: way for index in graph.layers if (way := _way_around(graph, graph.nodes[index])) is not None}


def _way_around(graph: Subgraphs, node: NodeView) -> str | None:
    """Return the name of the input that can replace the only used output of a node, or None if there is none."""
    outputs = node.present_outputs
    used = [value for value in outputs if value.uses or value.is_output]
    if len(used) != 1:
        return None
    for value in node.present_inputs:
        if value.initializer is None and _are_alike(graph, value, used[0]):
            return value.name
    return None


def _are_alike(graph: Subgraphs, one: Value, other: Value) -> bool:
    types = graph.index.types
    shape = types.shape(one)
    return shape is not None and shape == types.shape(other) and types.elem_type(one) == types.elem_type(other)


def _without(graph: Subgraphs, ways: dict[int, str]) -> Model | None:
    stand_ins: dict[str, str] = {}
    for index in sorted(ways):
        source = stand_ins.get(ways[index], ways[index])
        stand_ins.update((name, source) for name in graph.nodes[index].proto.output if name)
    proto = copy.deepcopy(graph.model.proto)
    nodes = [node for index, node in enumerate(proto.graph.node) if index not in ways]
    del proto.graph.node[:]
    proto.graph.node.extend(nodes)
    for _, container in walk(proto):
        for node in container.node:
            for position, name in enumerate(node.input):
                node.input[position] = stand_ins.get(name, name)
    made = {name for node in proto.graph.node for name in node.output}
    for output in [each for each in proto.graph.output if each.name in stand_ins]:
        proto.graph.output.remove(output)
        # An output that is an unchanged input gives no information.
        source = stand_ins[output.name]
        if source in made and all(each.name != source for each in proto.graph.output):
            proto.graph.output.add(name=source, type=output.type)
    return with_proto(graph.model, pruned(proto, graph.kept_unused)) if proto.graph.output else None


_MOST_NAMED = 8
"""A message with more node names than this does not show which node is at fault."""

_DISTANCES = (0, 1, 3)
"""The first candidates have the nodes within these distances from the nodes that the message names."""


def keep_few_nodes(search: Search) -> None:
    """Reduce the main graph to few nodes.

    The nodes that the message of the failure names are tried first. The next candidates find the last node of the
    shortest failing prefix, then the nodes that it needs, nearest first.
    """
    graph = Subgraphs(search.best, search.kept_unused, search.cuts)
    links = _links(graph)
    items = _around_named(search, graph, links) or graph.layers

    def fails(indices: list[int]) -> bool:
        return search.accepts(graph.keep(graph.with_attached(indices)))

    def bypass(needed: list[int], rest: list[int]) -> bool:
        """Connect the needed nodes by bypassing the nodes between them."""
        if search.cuts is not None:
            return False
        between = graph.keep(graph.with_attached([*needed, *rest]))
        keys = {graph.nodes[index].key for index in needed}
        return between is not None and search.accepts(bypassed(Subgraphs(between, search.kept_unused), keys))

    minimal_subset(items, fails, Guidance(lambda needed, rest: _by_distance(needed, rest, links), bypass))


def _around_named(search: Search, graph: Subgraphs, links: list[set[int]]) -> list[int]:
    """Return nodes around the nodes that the failure names, if a model of them fails alike; else an empty list."""
    names = {name: node.index for node in graph.nodes for name in (*node.proto.output, node.proto.name) if name}
    layers = set(graph.layers)
    output = search.failure.output
    named = ({names[name] for name in named_in(output, names)} | numbered_in(output)) & layers
    if not 0 < len(named) <= _MOST_NAMED:
        return []
    distances, tried = _distances(named, links), list[int]()
    for distance in _DISTANCES:
        near = sorted(index for index, steps in distances.items() if steps <= distance and index in layers)
        if near == tried or len(near) == len(layers):
            break
        tried = near
        if search.accepts(graph.keep(graph.with_attached(near))):
            return near
    return []


def _links(graph: Subgraphs) -> list[set[int]]:
    """Return, for each node, the nodes that it reads from and the nodes that read from it."""
    found: list[set[int]] = [set() for _ in graph.nodes]
    for index, values in enumerate(graph.reads):
        for value in values:
            if value.producer is not None and value.producer.index not in graph.constant:
                found[index].add(value.producer.index)
                found[value.producer.index].add(index)
    return found


def _distances(sources: Iterable[int], links: list[set[int]]) -> dict[int, int]:
    """Return the number of steps to each node that can be reached from one of ``sources``."""
    found = dict.fromkeys(sources, 0)
    waiting = deque(found)
    while waiting:
        here = waiting.popleft()
        for there in sorted(links[here]):
            if there not in found:
                found[there] = found[here] + 1
                waiting.append(there)
    return found


def _by_distance(needed: list[int], rest: list[int], links: list[set[int]]) -> list[int]:
    steps = _distances(needed, links)
    return sorted(rest, key=lambda index: (steps.get(index, len(links)), index))
