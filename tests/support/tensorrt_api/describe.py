"""Write the interface of a compiled TensorRT module as a type stub: ``python -m support.tensorrt_api.describe MODULE``.

The bindings are made with pybind11. It puts the signatures into ``__doc__``, which is all that can be read of them.
A signature that cannot be read becomes ``(*args: Any, **kwargs: Any) -> Any``; a type that cannot be read ``Any``.
"""

import ctypes
import importlib
import inspect
import keyword
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

HEADER = '''# mypy: ignore-errors
"""The Python interface of {module} {version}, as its compiled bindings describe it.

Written by `make bindings ARGS=--write-stubs`; do not edit.
"""

import builtins
import collections.abc
import typing
from typing import Any, ClassVar, overload

from typing_extensions import Buffer

__version__: str
'''
_WORDS = """
    None Any Buffer Sequence Callable Iterator Mapping bool bytes
    dict float int list object str tuple slice type collections abc typing builtins
"""
_KNOWN = frozenset(_WORDS.split())
# Names that pybind11 prints before the class is registered, or that Python does not know.
_RENAMED = {
    "IParserError": "ParserError",
    "buffer": "Buffer",
    "Dict": "dict",
    "Iterator": "collections.abc.Iterator",
    "List": "list",
    "Tuple": "tuple",
    "typing_extensions.Buffer": "Buffer",
    "typing.SupportsInt": "int",
    "typing.SupportsFloat": "float",
    "typing.SupportsIndex": "int",
    "bool": "builtins.bool",
}
_SIGNATURE = re.compile(r"^(?:\d+\. )?\w*\((?P<parameters>.*)\)(?: -> (?P<returned>.+))?$")
_CPP = re.compile(r"(?:std|nvinfer\w*|nvonnxparser)::(?:\w+::)*(\w+)\s*[*&]?")
# What every Python class has, and what pybind11 adds to make and remove objects.
_PYTHONS = (frozenset(dir(object)) - {"__init__"}) | {
    "__annotations__",
    "__dict__",
    "__module__",
    "__weakref__",
    "__entries",
    "__getstate__",
    "__setstate__",
    "__del__",
    "__enter__",
    "__exit__",
    "_pybind11_conduit_v1_",
}


# Where the field tp_as_buffer stands in a PyTypeObject: behind PyVarObject and 17 fields.
_AS_BUFFER = object.__basicsize__ + (1 + 17) * 8


@dataclass(frozen=True, slots=True)
class _Parameter:
    """One parameter of a signature; ``type`` is as the stub has it."""

    name: str
    type: str
    optional: bool


@dataclass(frozen=True, slots=True)
class _Names:
    """The module whose types are spelled, and all classes of it."""

    module: str
    classes: frozenset[str]

    def type(self, text: str, *, given: bool = False) -> str:
        """A type as the stub spells it.

        Args:
            text: As pybind11 prints it.
            given: Whether it is a parameter's: lists are taken for ``Dims`` there.
        """
        plain = re.sub(rf"\b{re.escape(self.module)}(?:_bindings)?\.(?:\w+\.)?(?=[A-Z]\w*)", "", text.strip())
        plain = _CPP.sub(r"\1", plain)
        plain = re.sub(r"[\w.]+", lambda word: _RENAMED.get(word[0], word[0]), plain)
        words = {word for name in re.findall(r"[A-Za-z_][\w.]*", plain) for word in [name, *name.split(".")]}
        unknown = {word for word in words if "." not in word} - _KNOWN - self.classes
        if unknown or not re.fullmatch(r"[\w.\[\], |]+", plain):
            return "Any"
        # pybind11 makes a Dims of a list or tuple of integers where a function takes one.
        return "Dims | collections.abc.Sequence[int]" if given and plain == "Dims" else _filled(plain)


def _filled(kind: str) -> str:
    """``list`` is ``list[Any]``."""
    return {"list": "list[Any]", "dict": "dict[Any, Any]", "tuple": "tuple[Any, ...]"}.get(kind, kind)


def stub(module: ModuleType) -> str:
    """The type stub of a module."""
    classes = {name: value for name, value in vars(module).items() if inspect.isclass(value) and name[0] != "_"}
    nested = {name for value in classes.values() for name, inner in vars(value).items() if inspect.isclass(inner)}
    names = _Names(module.__name__.removesuffix("_bindings"), frozenset(classes) | frozenset(nested))
    lines = [HEADER.format(module=names.module, version=module.__version__)]
    lines += [f"{line}\n" for name, value in sorted(classes.items()) for line in _class(name, value, names)]
    lines += [f"{line}\n" for name, value in sorted(vars(module).items()) for line in _function(name, value)]
    constants = {name: value for name, value in vars(module).items() if type(value).__name__ in classes}
    lines += [f"{name}: {type(value).__name__}\n" for name, value in sorted(constants.items())]
    return "".join(lines)


def _function(name: str, value: object) -> Iterator[str]:
    if not inspect.isfunction(value) or name.startswith("_"):
        return
    parameters = [f"{each}: Any" for each in inspect.signature(value).parameters]
    yield f"def {name}({', '.join(parameters)}) -> Any: ..."


def _class(name: str, value: type, names: _Names, indent: str = "") -> Iterator[str]:
    base = value.__mro__[1].__name__
    yield f"{indent}class {name}{f'({base})' if base in names.classes else ''}:"
    body = [line for member in sorted(vars(value)) for line in _member(member, value, names)]
    item = next((line for line in body if line.startswith("def __getitem__(")), None)
    if item is not None and hasattr(value, "__len__") and not hasattr(value, "__iter__"):
        # Python iterates with integers over what has no __iter__.
        body.append(
            f"def __iter__(self) -> collections.abc.Iterator[{item.rpartition(' -> ')[2].removesuffix(': ...')}]: ..."
        )
    if _is_buffer(value):
        body.append("def __buffer__(self, flags: int, /) -> memoryview: ...")
    yield from (f"{indent}    {line}" for line in body or ["..."])


def _is_buffer(kind: type) -> bool:
    """Whether objects of a class can be read as bytes, which no attribute tells below Python 3.12."""
    table = ctypes.c_void_p.from_address(id(kind) + _AS_BUFFER).value
    return bool(table and ctypes.c_void_p.from_address(table).value)


def _member(name: str, owner: type, names: _Names) -> Iterator[str]:
    value: Any = vars(owner)[name]
    if name == "__members__":
        yield f"__members__: ClassVar[dict[str, {_path(owner)}]]"
    elif name in _PYTHONS or (name.startswith("_") and not name.endswith("__")) or "pybind11" in name:
        return
    elif inspect.isclass(value):
        yield from _class(name, value, names)
    elif isinstance(value, property):
        yield from _property(name, value, names)
    elif callable(value):
        yield from _method(name, value, names)
    else:
        kind = type(value)
        known = kind.__name__ in names.classes or kind.__module__ == "builtins"
        yield f"{name}: ClassVar[{names.type(_path(kind)) if known else 'Any'}]"


def _path(kind: type) -> str:
    return kind.__qualname__


def _property(name: str, value: property, names: _Names) -> Iterator[str]:
    read = _signatures(value.fget)
    kind = names.type(read[0][1]) if read else "Any"
    if value.fset is not None:
        yield f"{name}: {kind}"
        return
    yield "@property"
    yield f"def {name}(self) -> {kind}: ..."


def _method(name: str, value: object, names: _Names) -> Iterator[str]:
    found = _signatures(value)
    if not found and name == "__init__":
        # pybind11: "No constructor defined!"
        yield "def __init__(self, nothing_makes_one: typing.Never) -> None: ..."
    elif not found:
        yield f"def {name}(self, *args: Any, **kwargs: Any) -> Any: ..."
    for given, returned in found:
        parameters = _parameters(given, names)
        if len(found) > 1:
            yield "@overload"
        bound = bool(parameters) and parameters[0].name in {"self", "arg0"}
        if not bound:
            yield "@staticmethod"
        listed = ["self"] * bound + [_declared(each) for each in parameters[bound:]]
        kind = "None" if name == "__init__" else names.type(returned or "Any")
        yield f"def {name}({', '.join(listed)}) -> {kind}: ..."


def _declared(parameter: _Parameter) -> str:
    if parameter.name.startswith("*"):
        return f"{parameter.name}: Any"
    return f"{parameter.name}: {parameter.type}{' = ...' if parameter.optional else ''}"


def _signatures(function: object) -> list[tuple[str, str | None]]:
    """Parameters and return type of every overload, as pybind11 prints them."""
    lines = (getattr(function, "__doc__", None) or "").strip().splitlines()
    found = [match for line in lines if (match := _SIGNATURE.match(line.strip())) and " -> " in line]
    if not any(line.strip() == "Overloaded function." for line in lines):
        found = found[:1]
    # The first line of an overloaded function is `name(*args, **kwargs)`, without a return type.
    return [(match["parameters"], match["returned"]) for match in found]


def _parameters(text: str, names: _Names) -> list[_Parameter]:
    found: list[_Parameter] = []
    for part in _split(text):
        if part == "/":
            continue
        declared, _, default = part.partition(" = ")
        name, _, kind = declared.partition(": ")
        # C++ lets a parameter without a default stand behind one with; Python does not.
        optional = bool(default) or any(each.optional for each in found)
        spelled = f"{name.strip()}_" if keyword.iskeyword(name.strip()) else name.strip()
        found.append(_Parameter(spelled, names.type(kind or "Any", given=True), optional))
    return found


def _split(text: str) -> Iterator[str]:
    """Split at commas that stand in no brackets."""
    depth, start = 0, 0
    for index, letter in enumerate(text):
        depth += (letter in "[(<{") - (letter in "])>}")
        if letter == "," and not depth:
            yield text[start:index].strip()
            start = index + 1
    if text[start:].strip():
        yield text[start:].strip()


if __name__ == "__main__":
    sys.stdout.write(stub(importlib.import_module(sys.argv[1])))
