"""One entry of the table of known messages."""

import re
from dataclasses import dataclass

BY_OPERATOR = "by operator"
"""Marks a hint that depends on the operator (:mod:`qdqtool.engines.tensorrt.operator_hints`)."""


@dataclass(frozen=True, slots=True)
class KnownRefusal:
    """A known message of TensorRT with its explanation.

    Attributes:
        pattern: Matches the message; the first match in the table is used. The groups ``node`` and ``tensor`` match the
            names of the node and the tensor at fault.
        reason: The reason in plain words, with ``{0}`` for the first group of the pattern.
        hint: How to fix the model, with ``{0}`` as in the reason, and ``MODEL`` for its path. None if no fix is known;
            :data:`BY_OPERATOR` if the hint depends on the operator.
        rules: Codes of the rules of ``validate`` that find such nodes, and may have a fix.
    """

    pattern: re.Pattern[str]
    reason: str
    hint: str | None = None
    rules: tuple[str, ...] = ()


def known(pattern: str, reason: str, hint: str | None = None, *, rules: str = "") -> KnownRefusal:
    """Return an entry; ``rules`` are codes with spaces between them."""
    return KnownRefusal(re.compile(pattern, re.DOTALL), reason, hint, tuple(rules.split()))
