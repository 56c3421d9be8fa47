"""One entry of the table of known messages."""

import re
from dataclasses import dataclass

BY_OPERATOR = "by operator"
"""In place of a hint: it depends on the operator (:mod:`qdqtool.engines.tensorrt.operator_hints`)."""


@dataclass(frozen=True, slots=True)
class KnownRefusal:
    """A message of TensorRT that is explained.

    Attributes:
        pattern: Finds the message; the first match in the table counts. A group called ``node`` is the name of the node
            at fault, and a group called ``tensor`` is the name of the tensor at fault.
        reason: The reason in plain words, with ``{0}`` for the first group of the pattern.
        hint: How to fix it, with ``{0}`` as in the reason, and ``MODEL`` for the path of the model; None where no fix
            is known; :data:`BY_OPERATOR` where the operator decides.
        rules: Codes of the rules of ``validate`` that find such nodes in a model, and may know a fix.
    """

    pattern: re.Pattern[str]
    reason: str
    hint: str | None = None
    rules: tuple[str, ...] = ()


def known(pattern: str, reason: str, hint: str | None = None, *, rules: str = "") -> KnownRefusal:
    """Return an entry; ``rules`` are codes with spaces between them."""
    return KnownRefusal(re.compile(pattern, re.DOTALL), reason, hint, tuple(rules.split()))
