"""Keywords of Python functions: check them against their types, and convert them to values for requests."""

import collections.abc
import contextlib
import functools
import inspect
import os
import re
import textwrap
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec
import numpy as np

from qdqtool.api import keywords
from qdqtool.api.any_data import DataLike, as_place
from qdqtool.api.declarations import keywords_of
from qdqtool.errors import ArgumentError
from qdqtool.models.running.custom_operators import named_operators
from qdqtool.options import PYTHON, Values, read
from qdqtool.registry import suggestion

T = TypeVar("T", bound=collections.abc.Callable[..., Any])
_MODULES = re.compile(r"\b(?:[a-z_]\w*\.)+(?=[A-Z])")
_WORDS = {"array": "a list", "object": "a dict", "float": "a number", " got": " not"}
"""Words in messages of msgspec, each with the word that Python users know."""


def checked(given: Mapping[str, Any], kind: type, function: str) -> dict[str, Any]:
    """Return keywords after checking their names and types; a keyword with the value None is left out.

    Args:
        given: The keywords.
        kind: The class with the legal keywords.
        function: The function that was called, for messages.

    Raises:
        ArgumentError: A name is unknown, or a value has another type than its keyword.
    """
    hints = typing.get_type_hints(kind)
    for name in given:
        if name not in hints:
            raise ArgumentError(
                f"{function}() has no option '{name}'{suggestion(name, hints)}",
                hint=f"its options: {', '.join(sorted(hints))}",
            )
    return {name: _converted(name, value, hints[name]) for name, value in given.items() if value is not None}


def with_keywords(function: T) -> T:
    """Add its keywords with their types to the docstring of a function, for ``help``."""
    kind = function.__annotations__["keywords"].removeprefix("Unpack[").removesuffix("]")
    lines = [
        textwrap.fill(f"{name}: {_MODULES.sub('', hint.__name__ if type(hint) is type else str(hint))}", 110)
        for name, hint in typing.get_type_hints(getattr(keywords, kind)).items()
    ]
    function.__doc__ = f"{inspect.getdoc(function)}\n\nKeywords:\n{textwrap.indent(chr(10).join(lines), '    ')}"
    return _with_operators(function) if "ort_custom_ops" in typing.get_type_hints(getattr(keywords, kind)) else function


def _with_operators(function: T) -> T:
    @functools.wraps(function)
    def call(*arguments: Any, ort_custom_ops: Any = None, stand_in: Any = None, **given: Any) -> Any:
        with _operators(ort_custom_ops, stand_in):
            return function(*arguments, **given)

    return typing.cast("T", call)


def _operators(libraries: Any, stand_in: Any) -> contextlib.AbstractContextManager[None]:
    if libraries is not None and not isinstance(libraries, list | tuple):
        raise ArgumentError(f"ort_custom_ops is {libraries!r}; it must be a list of paths")
    found = [_converted("ort_custom_ops", each, Path) for each in libraries or ()]
    return named_operators(found, None if stand_in is None else _converted("stand_in", stand_in, Path))


def _converted(name: str, value: Any, hint: Any) -> Any:
    members = typing.get_args(hint) if typing.get_origin(hint) in {types.UnionType, typing.Union} else (hint,)
    if hint in {DataLike, DataLike | None}:
        return value
    if any(typing.get_origin(member) is collections.abc.Callable for member in members):
        return _metric(name, value)
    if Path in members:
        if not isinstance(value, str | os.PathLike):
            raise ArgumentError(f"{name} is {value!r}; it must be a path")
        return Path(value)
    if any(Path in typing.get_args(each) for each in typing.get_args(hint)):
        if isinstance(value, str | os.PathLike) or not isinstance(value, collections.abc.Iterable):
            raise ArgumentError(f"{name} is {value!r}; it must be a list of paths")
        return [_converted(name, each, typing.get_args(hint)[0]) for each in value]
    try:
        return msgspec.convert(value.item() if isinstance(value, np.generic) else value, hint)
    except msgspec.ValidationError as error:
        raise ArgumentError(f"{name} is {value!r}; {_wanted(value, members, error)}") from None


def _metric(name: str, value: Any) -> Any:
    if not (isinstance(value, str) or callable(value)):
        raise ArgumentError(f"{name} is {value!r}; it must be the name of a metric, or a function")
    return value


def _wanted(value: Any, members: Sequence[Any], error: msgspec.ValidationError) -> str:
    """Return the legal values of a keyword, as text."""
    legal = [word for member in members if typing.get_origin(member) is Literal for word in typing.get_args(member)]
    if legal:
        numbers = "a number, " if float in members else ""
        near = suggestion(value, legal) if isinstance(value, str) else ""
        return f"legal: {numbers}{', '.join(map(repr, legal))}{near}"
    if isinstance(value, str) and typing.get_origin(members[0]) is Sequence:
        return f"it must be a list, such as [{value!r}]"
    words = str(error).partition(" - at")[0].replace(" | null", "").replace("`", "").replace("Expected", "it must be")
    for kind, word in _WORDS.items():
        words = words.replace(kind, word)
    return words


def values_of(given: Mapping[str, Any], command: str, function: str, **arguments: Any) -> Values:
    """Return the values of the keywords of a function.

    Args:
        given: The keywords.
        command: The command that corresponds to the function.
        function: The name of the function, for messages.
        arguments: Arguments of the function that are options of the command, such as its data; None if omitted.

    Raises:
        ArgumentError: A name is unknown, or a value has another type than its keyword.
    """
    options = keywords_of(command)
    kind = getattr(keywords, f"{command.title()}Keywords")
    found = read(options.values(), checked(given, kind, function), PYTHON)
    found |= {name: value for name, value in arguments.items() if value is not None}
    data = [name for name, each in options.items() if each.kind.keyword == "DataLike"]
    return found | {name: as_place(found[name]) for name in (*data, *arguments) if name in found}
