"""The reason why an operator stays float: decisions use the code, users read the text."""

from dataclasses import dataclass
from typing import Literal

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
