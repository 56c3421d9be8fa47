"""Parse shape options, for every command that takes them, and spell shapes."""

import re
from collections.abc import Mapping, Sequence

from qdqtool.errors import UsageError

Shapes = Mapping[str, tuple[int, ...]]
"""Extents by input name."""

# The name is matched lazily up to a colon with a shape behind it, since ONNX names may hold colons ("input:0").
_ENTRY = re.compile(r"(?P<name>[^,].*?):(?P<dims>\d+(?:[xX]\d+)*|\[[\d, ]*\])\s*(?:,|$)", re.DOTALL | re.ASCII)
_VALUES = re.compile(r"(?P<name>[^,].*?):(?P<dims>-?\d+(?:[xX]-?\d+)*|\[[-\d, ]*\])\s*(?:,|$)", re.DOTALL | re.ASCII)
_SYNTAX = "write it as name:1x3x320x320, several separated by commas"


def parse_shapes(words: Sequence[str], option: str) -> dict[str, tuple[int, ...]]:
    """Parse ``x:1x3x320x320,mask:[1,320]`` to shapes by name.

    A name may hold colons; the shape is what follows the last one. ``[]`` is a scalar. An extent may be 0, as that of a
    cache that is empty at first.

    Args:
        words: One word for each time that the option was given, with one or several entries.
        option: The option, for messages.

    Raises:
        UsageError: A word has another form, or a name occurs twice.
    """
    return _parse(words, option, _ENTRY)


def parse_values(words: Sequence[str], option: str) -> dict[str, tuple[int, ...]]:
    """Parse ``sizes:1x3x64x64,start:[0,-1],count:5`` to integers by name: the same spelling for values of inputs.

    Raises:
        UsageError: A word has another form, an entry has no value, or a name occurs twice.
    """
    found = _parse(words, option, _VALUES)
    for name, values in found.items():
        if not values:
            raise UsageError(f"{option} gives '{name}' no value")
    return found


def spell_shape(shape: tuple[int, ...]) -> str:
    """Spell a shape as ``1x3x320x320``, a scalar as ``[]``, as :func:`parse_shapes` reads it."""
    return "x".join(map(str, shape)) or "[]"


def spell_shapes(shapes: Shapes) -> str:
    """Spell shapes by name as one word."""
    return ",".join(f"{name}:{spell_shape(shape)}" for name, shape in shapes.items())


def _parse(words: Sequence[str], option: str, entry: re.Pattern[str]) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {}
    for word in words:
        for name, numbers in _entries(word, option, entry):
            if name in found:
                raise UsageError(f"{option} names '{name}' twice")
            found[name] = numbers
    return found


def _entries(word: str, option: str, entry: re.Pattern[str]) -> list[tuple[str, tuple[int, ...]]]:
    found: list[tuple[str, tuple[int, ...]]] = []
    position = 0
    while position < len(word):
        match = entry.match(word, position)
        if match is None:
            raise UsageError(f"{option} '{word}' cannot be read from '{word[position:]}' on", hint=_SYNTAX)
        found.append((match["name"].strip(), tuple(int(dim) for dim in re.findall(r"-?\d+", match["dims"]))))
        position = match.end()
    if not found:
        raise UsageError(f"{option} is empty", hint=_SYNTAX)
    return found
