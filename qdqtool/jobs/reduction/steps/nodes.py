"""Keep few nodes of the main graph: their inputs become graph inputs, their outputs graph outputs."""

from collections import deque
from collections.abc import Iterable

from qdqtool.jobs.reduction.failure import named_in, numbered_in
from qdqtool.jobs.reduction.minimal_subset import Guidance, minimal_subset
from qdqtool.jobs.reduction.search import Search
from qdqtool.jobs.reduction.steps.bypass import bypassed
from qdqtool.jobs.reduction.subgraph import Subgraphs

_MOST_NAMED = 8
"""A message that names more nodes than this does not say which of them is at fault."""

_DISTANCES = (0, 1, 3)
"""How far from the nodes that the message names the first candidates reach, in nodes."""


def keep_few_nodes(search: Search) -> None:
    """Reduce the main graph to few nodes.

    The nodes that the message of the failure names are tried first. Then the last node of the shortest failing prefix
    is looked for, and what it needs, the nearest nodes first.
    """
    graph = Subgraphs(search.best, search.kept_unused, search.cuts)
    links = _links(graph)
    items = _around_named(search, graph, links) or graph.layers

    def fails(indices: list[int]) -> bool:
        return search.accepts(graph.keep(graph.with_attached(indices)))

    def bypass(needed: list[int], rest: list[int]) -> bool:
        """Connect the needed nodes by leaving out what lies between them."""
        if search.cuts is not None:
            return False
        between = graph.keep(graph.with_attached([*needed, *rest]))
        keys = {graph.nodes[index].key for index in needed}
        return between is not None and search.accepts(bypassed(Subgraphs(between, search.kept_unused), keys))

    minimal_subset(items, fails, Guidance(lambda needed, rest: _by_distance(needed, rest, links), bypass))


def _around_named(search: Search, graph: Subgraphs, links: list[set[int]]) -> list[int]:
    """Nodes around those that the failure names, if they fail alike; empty otherwise."""
    names = {name: node.index for node in graph.nodes for name in (*node.proto.output, node.proto.name) if name}
    layers = set(graph.layers)
    output = search.failure.output
    named = ({names[name] for name in named_in(output, names)} | numbered_in(output)) & layers
    if not 0 < len(named) <= _MOST_NAMED:
        return []
    tried: list[int] = []
    for distance in _DISTANCES:
        near = sorted(_within(named, distance, links) & layers)
        if near == tried or len(near) == len(layers):
            break
        tried = near
        if search.accepts(graph.keep(graph.with_attached(near))):
            return near
    return []


def _links(graph: Subgraphs) -> list[set[int]]:
    """For each node the nodes that it reads from or that read from it."""
    found: list[set[int]] = [set() for _ in graph.nodes]
    for index, values in enumerate(graph.reads):
        for value in values:
            if value.producer is not None and value.producer.index not in graph.constant:
                found[index].add(value.producer.index)
                found[value.producer.index].add(index)
    return found


def _distances(sources: Iterable[int], links: list[set[int]]) -> dict[int, int]:
    """The number of steps to each node that can be reached from one of ``sources``."""
    found = dict.fromkeys(sources, 0)
    waiting = deque(found)
    while waiting:
        here = waiting.popleft()
        for there in sorted(links[here]):
            if there not in found:
                found[there] = found[here] + 1
                waiting.append(there)
    return found


def _within(sources: Iterable[int], distance: int, links: list[set[int]]) -> set[int]:
    return {index for index, steps in _distances(sources, links).items() if steps <= distance}


def _by_distance(needed: list[int], rest: list[int], links: list[set[int]]) -> list[int]:
    steps = _distances(needed, links)
    return sorted(rest, key=lambda index: (steps.get(index, len(links)), index))
