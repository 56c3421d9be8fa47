"""Put the code of a mutant into the functions of a module that is imported already.

What tests have imported from it is the same function, so nothing has to be imported again. That is not possible for
what runs while a module is imported: constants, defaults, the bodies of classes. Such mutants are loaded anew, from a
text that stands for the file.
"""

import gc
import importlib.abc
import importlib.util
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from importlib.machinery import ModuleSpec
from types import CodeType, FunctionType, ModuleType
from typing import Any

Place = tuple[str, int]
"""Qualified name and first line of a code object."""


def live_functions() -> Mapping[str, Sequence[FunctionType]]:
    """All functions that exist, by the file of their code."""
    found: dict[str, list[FunctionType]] = defaultdict(list)
    for each in gc.get_objects():
        if type(each) is FunctionType:
            found[each.__code__.co_filename].append(each)
    return found


def swap(functions: Sequence[FunctionType], before: str, after: str) -> bool:
    """Give functions the code that they have in another text of their file.

    Args:
        functions: All that exist of this file.
        before: Its text.
        after: The text with a fault; no line is added or removed.

    Returns:
        Whether that is all that differs. If not, nothing is changed.
    """
    if before == after:
        return True
    path = functions[0].__code__.co_filename if functions else ""
    old = dict(_codes(compile(before, path, "exec"), ()))
    new = dict(_codes(compile(after, path, "exec"), ()))
    live = {_place(function.__code__) for function in functions}
    # What is never done, such as what stands under ``if False``, is left out by the compiler.
    gone = {places[-1] for places in old.keys() - new.keys()}
    if new.keys() - old.keys() or live & gone:
        return False
    changed = [places for places in new if _own(new[places]) != _own(old[places])]
    if not changed or not all(live.intersection(places) for places in changed):
        return False
    # Where several stand in one line, such as two lambdas, it is not known which is which.
    codes = {places[-1]: code for places, code in new.items() if places}
    if len(codes) < len(new) - 1:
        return False
    wanted = [(function, codes[_place(function.__code__)]) for function in functions]
    if any(len(function.__code__.co_freevars) != len(code.co_freevars) for function, code in wanted):
        return False
    for function, code in wanted:
        if function.__code__ != code:
            function.__code__ = code
    return True


def _codes(code: CodeType, outer: tuple[Place, ...]) -> Iterator[tuple[tuple[Place, ...], CodeType]]:
    """A code object and those inside it, each with the places of all around it and its own."""
    yield outer, code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant, (*outer, _place(constant)))


def _place(code: CodeType) -> Place:
    return code.co_qualname, code.co_firstlineno


def _own(code: CodeType) -> tuple[object, ...]:
    """What a code object does without those inside it."""
    constants = [None if isinstance(each, CodeType) else (type(each), each) for each in code.co_consts]
    return code.co_code, repr(constants), code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars


class StandIn(importlib.abc.MetaPathFinder, importlib.abc.SourceLoader):
    """Loads one module from a text instead of its file.

    Args:
        name: The module, such as ``qdqtool.models.plan``.
        path: Its file.
        text: What is loaded.
    """

    def __init__(self, name: str, path: str, text: str) -> None:
        self._name, self._path, self._text = name, path, text

    def install(self) -> None:
        """Load it so from now on; it must not have been imported."""
        assert self._name not in sys.modules
        sys.meta_path.insert(0, self)

    def find_spec(self, fullname: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """The specification of the module; None for others."""
        del path, target
        if fullname != self._name:
            return None
        return importlib.util.spec_from_file_location(fullname, self._path, loader=self)

    def get_filename(self, fullname: str) -> str:
        """The file that the text stands for."""
        del fullname
        return self._path

    def get_data(self, path: Any) -> bytes:
        """The text; there is no compiled file."""
        if path != self._path:
            raise OSError(path)
        return self._text.encode()
