"""Select the nodes that a user wants quantized, by globs over node names and operators."""

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import takewhile

from qdqtool.errors import UsageError
from qdqtool.models import ops
from qdqtool.models.graph.index.view import GraphView, NodeView
from qdqtool.models.graph.scope import ScopePath
from qdqtool.quantization.planning.placement.proposal import FOR_ACCURACY, IN_FALLBACK, Reason
from qdqtool.registry import suggestion

NodeId = tuple[ScopePath, tuple[str, ...]]
"""A node: its scope and the names of its outputs."""

COMPARED = 200
"""The number of names of a model with which a misspelt pattern is compared in full."""


@dataclass(frozen=True, slots=True)
class PatternMatch:
    """The nodes that one pattern selects.

    Attributes:
        option: The option it was given with, as users spell it.
        pattern: The glob.
        nodes: Labels of the nodes that it matches, in the order of the graph.
        quantizable: How many of them have an operator that may have pairs; for the others it changes nothing.
    """

    option: str
    pattern: str
    nodes: tuple[str, ...]
    quantizable: int


@dataclass(frozen=True, slots=True)
class Selection:
    """Globs (``*``, ``?``, ``[...]``, case-sensitive) that restrict what is quantized. Excluding wins.

    Attributes:
        nodes_to_quantize: Only nodes with a matching name or output name; empty for all.
        nodes_to_exclude: Not these.
        op_types_to_quantize: Only operators that match; empty for all. An operator that stays float because it gains
            nothing is quantized when it is named here in full.
        op_types_to_exclude: Not these.
        float_nodes: Nodes that a search leaves in float for the accuracy.
        fallback_nodes: Nodes that a search gives the fallback format of the recipe.
        dominant_nodes: Nodes that calibration leaves in float, with the reason in words.
    """

    nodes_to_quantize: tuple[str, ...] = ()
    nodes_to_exclude: tuple[str, ...] = ()
    op_types_to_quantize: tuple[str, ...] = ()
    op_types_to_exclude: tuple[str, ...] = ()
    float_nodes: frozenset[NodeId] = frozenset()
    fallback_nodes: frozenset[NodeId] = frozenset()
    dominant_nodes: Mapping[NodeId, str] = field(default_factory=dict)

    def matches(self, view: GraphView) -> tuple[PatternMatch, ...]:
        """Return what each pattern matches in a model."""
        nodes = list(view.nodes())
        return (
            *(_match("--nodes-to-quantize", pattern, nodes, _names) for pattern in self.nodes_to_quantize),
            *(_match("--nodes-to-exclude", pattern, nodes, _names) for pattern in self.nodes_to_exclude),
            *(_match("--op-types-to-quantize", pattern, nodes, _op_types) for pattern in self.op_types_to_quantize),
            *(_match("--op-types-to-exclude", pattern, nodes, _op_types) for pattern in self.op_types_to_exclude),
        )

    def refusal(self, node: NodeView) -> Reason | None:
        """Return why ``node`` is not quantized; None where it may be."""
        measured = self._measured((node.scope.path, node.key))
        if measured is not None:
            return measured
        excluding = _first(self.nodes_to_exclude, _names(node))
        if excluding is not None:
            return Reason("excluded", f"excluded by --nodes-to-exclude '{excluding}'")
        excluding = _first(self.op_types_to_exclude, _op_types(node))
        if excluding is not None:
            return Reason("excluded", f"excluded by --op-types-to-exclude '{excluding}'")
        if self.nodes_to_quantize and _first(self.nodes_to_quantize, _names(node)) is None:
            return Reason("not-selected", "not among --nodes-to-quantize")
        if self.op_types_to_quantize and _first(self.op_types_to_quantize, _op_types(node)) is None:
            return Reason("not-selected", "not among --op-types-to-quantize")
        return None

    def _measured(self, node: NodeId) -> Reason | None:
        if node in self.float_nodes or node in self.fallback_nodes:
            return FOR_ACCURACY if node in self.float_nodes else IN_FALLBACK
        reason = self.dominant_nodes.get(node)
        return None if reason is None else Reason("noise", reason)

    def asks_for(self, node: NodeView) -> bool:
        """Return whether the user named ``node`` or its operator in full: then it is quantized without gain, too."""
        return node.op_type in self.op_types_to_quantize or node.proto.name in self.nodes_to_quantize


def _names(node: NodeView) -> list[str]:
    return [name for name in (node.proto.name, *node.proto.output) if name]


def _op_types(node: NodeView) -> list[str]:
    return [node.op_type]


def _first(patterns: Iterable[str], words: list[str]) -> str | None:
    return next((pattern for pattern in patterns if any(fnmatchcase(word, pattern) for word in words)), None)


def _match(option: str, pattern: str, nodes: list[NodeView], words: Callable[[NodeView], list[str]]) -> PatternMatch:
    found = [node for node in nodes if _first([pattern], words(node)) is not None]
    if not found:
        legal = sorted({word for node in nodes for word in words(node)})
        kind = "operator" if words is _op_types else "node"
        candidates = [*legal, *dict.fromkeys(_globs(legal))] if "*" in pattern else legal
        raise UsageError(
            f"{option} '{pattern}' matches no {kind} of the model{suggestion(pattern, _likely(pattern, candidates))}",
            hint=f"leave {option} out, and `--list-matches` lists every node that would be quantized"
            if words is _names
            else f"it has {', '.join(legal)}",
        )
    return PatternMatch(option, pattern, tuple(node.label for node in found), sum(map(_is_quantizable, found)))


def _is_quantizable(node: NodeView) -> bool:
    return ops.get(node) is not None


def _likely(pattern: str, words: Iterable[str]) -> list[str]:
    """Return the words that share most letters with ``pattern`` at both ends: to compare all in full takes seconds."""

    def shared(word: str) -> int:
        return _common(pattern, word) + _common(pattern[::-1], word[::-1])

    return heapq.nlargest(COMPARED, words, key=shared)


def _common(left: str, right: str) -> int:
    """Return the length of the common prefix."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(left, right, strict=False)))


def _globs(names: Iterable[str]) -> Iterator[str]:
    """Yield a glob for each level of hierarchical names, as exporters write them: ``/model/encoder/*``."""
    for name in names:
        for index, character in enumerate(name):
            if character in "/.":
                yield f"{name[: index + 1]}*"
