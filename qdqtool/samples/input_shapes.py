"""Parse and format shapes and values by input name, for all commands with such options."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from qdqtool.errors import UsageError

Shapes = Mapping[str, tuple[int, ...]]
"""Shapes by input name."""

Values = Mapping[str, tuple[float, ...]]
"""Integers, floats and booleans by input name."""

_Number = TypeVar("_Number", int, float)


@dataclass(frozen=True, slots=True)
class _Spelling(Generic[_Number]):
    """The syntax of the numbers that follow the name of an input.

    Attributes:
        pattern: Regular expression of one number.
        read: Converts the text of a number.
        is_shape: Whether empty brackets are allowed, for the shape of a scalar.
        syntax: The hint for text with another syntax.
    """

    pattern: str
    read: Callable[[str], _Number]
    is_shape: bool
    syntax: str

    @property
    def entry(self) -> re.Pattern[str]:
        """Regular expression of one entry. The name is matched lazily because ONNX names may contain colons."""
        listed = rf"\[\s*(?:{self.pattern}(?:\s*,\s*{self.pattern})*)?\s*\]"
        numbers = rf"{self.pattern}(?:[xX]{self.pattern})*|{listed}"
        return re.compile(rf"(?P<name>[^,].*?):(?P<numbers>{numbers})\s*(?:,|$)", re.DOTALL | re.ASCII)


def _number(word: str) -> float:
    if word in {"true", "false"}:
        return word == "true"
    return int(word) if word.lstrip("-").isdigit() else float(word)


_SHAPE = _Spelling(r"\d+", int, True, "write it as name:1x3x320x320, several separated by commas")
_INTEGERS = _Spelling(r"-?\d+", int, False, "write it as name:2x-1 or name:[2,-1], several separated by commas")
_NUMBERS = _Spelling(
    r"(?:-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|true|false)",
    _number,
    False,
    "write it as name:16000, name:true, name:0.5 or name:[1,3], several separated by commas",
)


def parse_shapes(words: Sequence[str], option: str) -> dict[str, tuple[int, ...]]:
    """Parse ``x:1x3x320x320,mask:[1,320]`` into shapes by name.

    A name may contain colons; the shape follows the last colon. ``[]`` is a scalar. An extent may be 0, for example in
    a cache that is empty at first.

    Args:
        words: The values of the option. It may be given several times, each time with one or several entries.
        option: Name of the option, for messages.
    """
    return _parse(words, option, _SHAPE)


def parse_values(words: Sequence[str], option: str) -> dict[str, tuple[int, ...]]:
    """Parse ``sizes:1x3x64x64,start:[0,-1],count:5`` into integers by name, in the syntax of shapes."""
    return _parse(words, option, _INTEGERS)


def parse_numbers(words: Sequence[str], option: str) -> dict[str, tuple[float, ...]]:
    """Parse ``sr:16000,threshold:0.5,flag:true,sizes:[64,64]`` into integers, floats and booleans by name."""
    return _parse(words, option, _NUMBERS)


def spell_shape(shape: tuple[int, ...]) -> str:
    """Format a shape in the syntax of :func:`parse_shapes`: ``1x3x320x320``, or ``[]`` for a scalar."""
    return "x".join(map(str, shape)) or "[]"


def spell_shapes(shapes: Shapes) -> str:
    """Format shapes by input name as one string: ``name:1x3x320x320,other:1x10``."""
    return ",".join(f"{name}:{spell_shape(shape)}" for name, shape in shapes.items())


def spell_values(values: Sequence[float]) -> str:
    """Format the values of an input in the syntax of :func:`parse_numbers`."""
    words = [str(value).lower() for value in values]
    return words[0] if len(words) == 1 else f"[{','.join(words)}]"


def spell_value_options(values: Values) -> list[str]:
    """Return the words of the command line that give inputs their values."""
    return [word for name, given in values.items() for word in ("--input-values", f"{name}:{spell_values(given)}")]


def _parse(words: Sequence[str], option: str, spelling: _Spelling[_Number]) -> dict[str, tuple[_Number, ...]]:
    found: dict[str, tuple[_Number, ...]] = {}
    for word in words:
        for name, numbers in _entries(word, option, spelling):
            if name in found:
                raise UsageError(f"{option} names '{name}' twice")
            if not numbers and not spelling.is_shape:
                raise UsageError(f"{option} gives '{name}' no value")
            found[name] = numbers
    return found


def _entries(word: str, option: str, spelling: _Spelling[_Number]) -> list[tuple[str, tuple[_Number, ...]]]:
    found: list[tuple[str, tuple[_Number, ...]]] = []
    position = 0
    while position < len(word):
        match = spelling.entry.match(word, position)
        if match is None:
            place = f" from '{word[position:]}' on" if position else ""
            raise UsageError(f"{option} '{word}' cannot be read{place}", hint=spelling.syntax)
        numbers = tuple(map(spelling.read, re.findall(spelling.pattern, match["numbers"], re.ASCII)))
        found.append((match["name"].strip(), numbers))
        position = match.end()
    if not found:
        raise UsageError(f"{option} is empty", hint=spelling.syntax)
    return found
