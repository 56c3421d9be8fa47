"""Errors that a user can cause, each with the exit code that the command line returns for it.

::

    QdqError
    ├── UsageError        2  wrong options, plan, calibration data or configuration
    │   └── ArgumentError 2  an illegal argument of a Python call (also a ValueError)
    ├── ModelError        3  the input cannot be read or is not a valid model
    ├── OutputError       2  the output cannot be written
    ├── CapabilityError   4  something this machine lacks was asked for
    └── GateError         1  the builder refused, crashed or timed out, or a gate was missed

Anything else that escapes is a bug of ours and ends with exit code 5.
"""

from typing import ClassVar

__all__ = [
    "ArgumentError",
    "CapabilityError",
    "GateError",
    "ModelError",
    "OutputError",
    "QdqError",
    "UsageError",
]


class QdqError(Exception):
    """An expected failure: one message for the user and, where we know it, the way out.

    Args:
        message: What is wrong, in one line, with the value that was found.
        hint: What to do about it, in one line.
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
    """The output cannot be written; nothing was left behind."""

    exit_code = 2


class ModelError(QdqError):
    """The input cannot be read, or is no valid ONNX model."""

    exit_code = 3


class CapabilityError(QdqError):
    """A package or device that the request needs is absent; the hint carries the install line."""

    exit_code = 4


class GateError(QdqError):
    """A gate was missed, or the builder refused the model, crashed or timed out."""

    exit_code = 1


def __dir__() -> list[str]:
    return sorted(__all__)
