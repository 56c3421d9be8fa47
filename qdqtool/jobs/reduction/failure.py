"""Failures of a command, and the test whether two of them are alike."""

import enum
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

import onnx

from qdqtool.models.graph.io.tensors import iter_tensors
from qdqtool.models.graph.scope import walk


class Kind(enum.Enum):
    """How a command failed."""

    EXIT = "exit code"
    SIGNAL = "signal"
    TIMEOUT = "time-out"
    REFUSED = "refused"
    GATE = "gate"
    MATCH = "match"


@dataclass(frozen=True, slots=True)
class Failure:
    """One failure of a command.

    Attributes:
        kind: How the command failed.
        detail: The exit code, the signal, or the stage that refused.
        reasons: Normalized messages, the decisive one first; empty if the kind is sufficient.
        message: The message as it was printed, for readers.
        output: The complete output, which may contain names of nodes.
    """

    kind: Kind
    detail: str
    reasons: tuple[str, ...]
    message: str
    output: str = field(default="", repr=False, compare=False)

    def is_like(self, other: "Failure") -> bool:
        """Return whether this failure, of a smaller model, is like another failure in the properties that decide."""
        if (self.kind, self.detail) != (other.kind, other.detail):
            return False
        return not other.reasons or other.reasons[0] in self.reasons


_PATH = re.compile(r"(?<![\w.])(?:[A-Za-z]:)?(?:~|\.{1,2})?[/\\][^\s'\"`:,;()]+")
_ADDRESS = re.compile(r"\b0[xX][0-9a-fA-F]+\b")
_NUMBER = re.compile(r"(?<![A-Za-z_\d.])[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?(?:\s?[,xX]\s?[-+]?\d+(?:\.\d+)?)*")
_WORD = re.compile(r"[^\s'\"`(),;=\[\]{}<>]+")
_POSITION = re.compile(r"\bnode\s+(?:[#\[]|'number )?(\d{1,9})\b", re.IGNORECASE)
_SPACE = re.compile(r"\s+")


class Normalizer:
    """Replaces the parts of messages that differ between models with the same fault.

    Names of tensors and nodes become ``*``, paths ``PATH``, numbers and lists of numbers ``N``.
    """

    def __init__(self, proto: onnx.ModelProto) -> None:
        operators = {node.op_type for _, container in walk(proto) for node in container.node}
        self._names = frozenset(_names(proto)) - operators - {""}

    def __call__(self, message: str) -> str:
        """Return a message without names, paths and numbers."""
        text = _WORD.sub(lambda found: self._without_name(found[0]), message)
        text = _ADDRESS.sub("N", _PATH.sub("PATH", text))
        return _SPACE.sub(" ", _NUMBER.sub("N", text)).strip()

    def _without_name(self, word: str) -> str:
        if word in self._names:
            return "*"
        # A period or a colon may follow the name.
        bare = word.rstrip(".:")
        return "*" + word[len(bare) :] if bare in self._names else word


def numbered_in(text: str) -> set[int]:
    """Return the positions of nodes in a text, such as 7 for ``node 7`` or ``node 'number 7'``."""
    return {int(found) for found in _POSITION.findall(text)}


def named_in(text: str, names: Iterable[str]) -> set[str]:
    """Return the elements of ``names`` that occur in a text as words."""
    words = {part for found in _WORD.findall(text) for part in (found, found.rstrip(".:"))}
    return {name for name in names if name in words}


def _names(proto: onnx.ModelProto) -> Iterable[str]:
    for _, container in walk(proto):
        yield from (name for node in container.node for name in (node.name, *node.input, *node.output))
        if isinstance(container, onnx.GraphProto):
            yield from (value.name for value in (*container.input, *container.output))
    yield from (tensor.name for tensor in iter_tensors(proto))
