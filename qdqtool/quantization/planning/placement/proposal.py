"""The result of placement: slots that should get a pair, operators that get none, and the selected nodes."""

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import takewhile
from typing import Literal, Self

from qdqtool.errors import UsageError
from qdqtool.models import ops
from qdqtool.models.graph.index.view import GraphView, NodeView
from qdqtool.models.graph.scope import ScopePath, display
from qdqtool.models.plan import Slot, UseRef
from qdqtool.numerics.scheme import QuantScheme
from qdqtool.quantization.planning.options import SelectionOptions
from qdqtool.registry import suggestion

Code = Literal[
    "accuracy",
    "attention-mask",
    "attention-scores",
    "constant-operand",
    "different-shapes",
    "divisor",
    "excluded",
    "fallback",
    "few-channels",
    "float-operator",
    "function-argument",
    "joined-conv-in-float",
    "lookup-table",
    "missing-operand",
    "no-elements",
    "no-gain",
    "no-kernel",
    "no-range",
    "no-weight",
    "no-whole-blocks",
    "noise",
    "not-observable",
    "not-selected",
    "nothing-to-fuse",
    "nothing-to-share",
    "quantized-already",
    "sum-of-layers",
    "unknown-shape",
    "unknown-type",
    "unsupported-type",
    "vector-weight",
    "weight-not-computed",
]
"""The kinds of reasons."""

_ON_REQUEST: frozenset[Code] = frozenset({"divisor", "few-channels", "no-gain"})
_ASK = "to quantize it anyway, give `--op-types-to-quantize '*'` and the option again with the operator"


@dataclass(frozen=True, slots=True)
class Reason:
    """The reason why one operator stays float.

    Attributes:
        code: The kind of the reason; stable.
        text: The reason as text that continues the name of the node.
    """

    code: Code
    text: str

    @property
    def on_request(self) -> bool:
        """Whether the operator is quantized nevertheless if the user names it."""
        return self.code in _ON_REQUEST


def on_request(code: Code, text: str) -> Reason:
    """Return the reason for an operator that gains nothing; its text also says how to quantize the operator anyway."""
    assert code in _ON_REQUEST
    return Reason(code, f"{text}; {_ASK}")


FOR_ACCURACY = Reason("accuracy", "unquantized, to reach the requested accuracy")
"""The reason for a node that a search leaves in float."""

IN_FALLBACK = Reason("fallback", "in the secondary format, to reach the requested accuracy")
"""The reason for a node that a search moves to the secondary format."""


Kind = Literal["activation", "weight"]


@dataclass(frozen=True, slots=True)
class ProposedSlot:
    """One Q/DQ pair that should be inserted; its scales are not known yet.

    Attributes:
        slot: The tensor and its uses; uses are always named, so that a graph output keeps its float value.
        kind: ``weight`` for a constant, else ``activation``.
        scheme: Number format and granularity.
        reason: Why the pair is proposed, as text.
        bound: The largest possible magnitude of the tensor, if that decides the scale; None to use the data.
        peaked: Whether the few largest values matter most; a method must not clip them only because they are few.
        range_group: Slots with the same number share one scale, the largest of the group; None for a separate scale.
    """

    slot: Slot
    kind: Kind
    scheme: QuantScheme
    reason: str
    bound: float | None = None
    peaked: bool = False
    range_group: int | None = None

    @property
    def uses(self) -> tuple[UseRef, ...]:
        """The uses that read the dequantized tensor."""
        assert self.slot.uses is not None
        return self.slot.uses


@dataclass(frozen=True, slots=True)
class SkippedNode:
    """One quantizable operator that stays float.

    Attributes:
        node: Label of the node.
        op_type: Operator of the node.
        graph: Scope of the node; empty for the main graph.
        reason: Why the node stays float.
    """

    node: str
    op_type: str
    graph: str
    reason: Reason

    @classmethod
    def of(cls, node: NodeView, reason: Reason) -> Self:
        """Return the description of a node that stays float."""
        return cls(node.label, node.op_type, display(node.scope.path), reason)


@dataclass(frozen=True, slots=True)
class PlacementProposal:
    """Slots in the order of their first use, and skipped nodes in the order of the graph."""

    slots: tuple[ProposedSlot, ...]
    skipped: tuple[SkippedNode, ...]

    @property
    def activations(self) -> tuple[ProposedSlot, ...]:
        """The slots whose scales come from ranges."""
        return tuple(slot for slot in self.slots if slot.kind == "activation")


NodeId = tuple[ScopePath, tuple[str, ...]]
"""A node: its scope and the names of its outputs."""

COMPARED = 200
"""Largest number of names of a model that are compared in full with a misspelled pattern."""


@dataclass(frozen=True, slots=True)
class PatternMatch:
    """The nodes that one pattern selects.

    Attributes:
        option: The option with the pattern, as users write it.
        pattern: The glob.
        nodes: Labels of the matching nodes, in the order of the graph.
        quantizable: Number of these nodes whose operator may have pairs; the pattern has no effect on other nodes.
    """

    option: str
    pattern: str
    nodes: tuple[str, ...]
    quantizable: int


@dataclass(frozen=True, slots=True)
class Selection(SelectionOptions):
    """The patterns of the user, and the nodes that a search or calibration decided on.

    Attributes:
        float_nodes: Nodes that a search leaves in float for accuracy.
        fallback_nodes: Nodes that a search moves to the secondary format of the recipe.
        dominant_nodes: Nodes that calibration leaves in float, with the reason as text.
    """

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
        """Return why ``node`` is not quantized, or None if it may be."""
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
        """Return whether the user gave the full name of ``node`` or its operator, to quantize it even without gain."""
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
    quantizable = sum(ops.get(node) is not None for node in found)
    return PatternMatch(option, pattern, tuple(node.label for node in found), quantizable)


def _likely(pattern: str, words: Iterable[str]) -> list[str]:
    """Return the words that share most letters with ``pattern`` at both ends; a full comparison takes seconds."""

    def shared(word: str) -> int:
        return _common(pattern, word) + _common(pattern[::-1], word[::-1])

    return heapq.nlargest(COMPARED, words, key=shared)


def _common(left: str, right: str) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(left, right, strict=False)))


def _globs(names: Iterable[str]) -> Iterator[str]:
    """Yield a glob for each level of hierarchical names, as exporters write them: ``/model/encoder/*``."""
    for name in names:
        for index, character in enumerate(name):
            if character in "/.":
                yield f"{name[: index + 1]}*"
