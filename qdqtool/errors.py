"""Errors that a user can cause, each with the exit code that the command line returns for it.

::

    QdqError
    ├── UsageError        2  wrong options, plan, calibration data or configuration
    │   └── ArgumentError 2  an illegal argument of a Python call (also a ValueError)
    ├── ModelError        3  the input cannot be read or is not a valid model
    ├── OutputError       2  the output cannot be written
    ├── CapabilityError   4  the request needs something that this machine lacks
    └── GateError         1  the builder refused, crashed or timed out, or a gate was missed

Any other exception is a bug of ours and ends with exit code 5.
"""

import unicodedata
from typing import ClassVar

__all__ = ["ArgumentError", "CapabilityError", "GateError", "ModelError", "OutputError", "QdqError", "UsageError"]


class QdqError(Exception):
    """An expected failure: one message for the user and, where we know it, a hint.

    Args:
        message: The fault in one line, with the value that was found.
        hint: How to fix it, in one line.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(QdqError):
    """The request itself is wrong: options, plan file, calibration data or configuration."""

    exit_code = 2


class ArgumentError(UsageError, ValueError):
    """An argument of a Python call is illegal; the message names it, its value and the legal values."""


class OutputError(QdqError):
    """The output cannot be written; no incomplete file remains."""

    exit_code = 2


class ModelError(QdqError):
    """The input cannot be read, or is no valid ONNX model."""

    exit_code = 3


class CapabilityError(QdqError):
    """A package or device that the request needs is absent; the hint shows how to install it."""

    exit_code = 4


class GateError(QdqError):
    """A gate was missed, or the builder refused the model, crashed or timed out."""

    exit_code = 1


def __dir__() -> list[str]:
    return sorted(__all__)


_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def plural(count: int, noun: str) -> str:
    """Return ``count`` with its noun: ``1 weight``, ``2 weights``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def escape(text: str) -> str:
    """Return ``text`` with every control, format and unassigned character as a Python escape.

    A model may name a node with escape sequences, line breaks or direction marks; none of them may reach a terminal.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        char.encode("unicode_escape", "surrogatepass").decode() if is_unsafe(char) else char for char in text
    )


def is_unsafe(char: str) -> bool:
    """Whether a character may not reach a terminal: control, format, surrogate, private and unassigned characters."""
    return unicodedata.category(char) in _UNSAFE


def human_bytes(count: int) -> str:
    """Return a size in the largest unit in which it is at least 1: ``1.5 MB`` is 1,500,000 bytes."""
    return plural(count, "byte") if count < 1000 else f"{human_count(count)}B"


def human_count(count: int) -> str:
    """Return a number in the largest unit in which it is at least 1: ``1.5 M`` is 1,500,000."""
    size = float(count)
    for unit in ("", " k", " M"):
        if size < 1000:
            return f"{size:.3g}{unit}"
        size /= 1000
    return f"{size:.3g} G"
