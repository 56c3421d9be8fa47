"""The result of placement: the slots that should get a pair, and the operators that get none, with reasons."""

from dataclasses import dataclass
from typing import Literal

from qdqtool.models.plan import Slot, UseRef
from qdqtool.numerics.scheme import QuantScheme

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
_ASK = "name the operator in --op-types-to-quantize to quantize it all the same"


@dataclass(frozen=True, slots=True)
class Reason:
    """The reason why one operator stays float.

    Attributes:
        code: The kind of the reason; stable.
        text: The reason in words that follow the name of the node.
    """

    code: Code
    text: str

    @property
    def on_request(self) -> bool:
        """Whether the operator is quantized all the same for a user who names it."""
        return self.code in _ON_REQUEST


def on_request(code: Code, text: str) -> Reason:
    """Return the reason for an operator that gains nothing; the text ends with how to quantize it all the same."""
    assert code in _ON_REQUEST
    return Reason(code, f"{text}; {_ASK}")


FOR_ACCURACY = Reason("accuracy", "left in float for the accuracy that was asked for")
"""Why a search leaves a node in float."""

IN_FALLBACK = Reason("fallback", "in the fallback format for the accuracy that was asked for")
"""Why a search takes a node out of the format of the mode."""


Kind = Literal["activation", "weight"]


@dataclass(frozen=True, slots=True)
class ProposedSlot:
    """One Q/DQ pair that should be inserted, still without scales.

    Attributes:
        slot: Its place; the uses are always named, so that a graph output keeps its float value.
        kind: ``weight`` for a constant, else ``activation``.
        scheme: Number format and granularity.
        reason: Why, in words.
        bound: The largest magnitude that the tensor can have, where that decides the scale; None to use the data.
        peaked: Whether its few largest values matter most, so that no method may clip them because they are few.
        range_group: Slots with the same number get one scale, the largest of theirs; None for a scale of its own.
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
        node: Its label.
        op_type: Its operator.
        graph: Its scope; empty for the main graph.
        reason: Why.
    """

    node: str
    op_type: str
    graph: str
    reason: Reason


@dataclass(frozen=True, slots=True)
class PlacementProposal:
    """Slots in the order of their first use, and skipped nodes in the order of the graph."""

    slots: tuple[ProposedSlot, ...]
    skipped: tuple[SkippedNode, ...]

    @property
    def activations(self) -> tuple[ProposedSlot, ...]:
        """The slots whose scales come from ranges."""
        return tuple(slot for slot in self.slots if slot.kind == "activation")
