"""A mutant's code is in the functions that exist, or nothing has changed."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tools.mutation.swap import StandIn, live_functions, swap

SOURCE = """
from functools import cache

LIMIT = 1

def plain(a):
    return a + 1

@cache
def kept(a):
    return a + 1

def outer(a):
    def inner(b):
        return a + b
    return inner

made = outer(10)

class Thing:
    size = 1

    @property
    def twice(self):
        return self.size * 2

def guarded(a):
    if a < 0:
        return [b for b in range(a)]
    return a
"""


@pytest.fixture
def module(tmp_path: Path) -> ModuleType:
    path = tmp_path / "swapped.py"
    path.write_text(SOURCE)
    specification = importlib.util.spec_from_file_location("swapped", path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def swapped(module: ModuleType, old: str, new: str) -> bool:
    assert SOURCE.count(old) >= 1
    return swap(live_functions()[str(module.__file__)], SOURCE, SOURCE.replace(old, new))


def test_a_function_that_was_imported_elsewhere_has_the_fault(module: ModuleType):
    imported, kept, made, thing = module.plain, module.kept, module.made, module.Thing()
    assert swapped(module, "a + 1", "a - 1")
    assert (imported(5), kept(5)) == (4, 4)
    assert (made(1), thing.twice) == (11, 2)


def test_functions_inside_functions_have_it_too(module: ModuleType):
    made = module.made
    assert swapped(module, "a + b", "a - b")
    assert made(1) == 9
    assert module.outer(3)(1) == 2


def test_a_property_has_it(module: ModuleType):
    thing = module.Thing()
    assert swapped(module, "self.size * 2", "self.size * 3")
    assert thing.twice == 3


@pytest.mark.parametrize(
    ("old", "new"), [("LIMIT = 1", "LIMIT = 2"), ("    size = 1", "    size = 2"), ("outer(10)", "outer(11)")]
)
def test_what_ran_while_importing_cannot_be_swapped(module: ModuleType, old: str, new: str):
    assert not swapped(module, old, new)
    assert (module.LIMIT, module.Thing.size, module.made(1)) == (1, 1, 11)


def test_code_that_the_compiler_leaves_out_is_gone(module: ModuleType):
    assert module.guarded(-1) == []
    assert swapped(module, "if a < 0:", "if False:")
    assert module.guarded(-1) == -1


def test_a_stand_in_is_loaded_instead_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "stood_for.py"
    path.write_text("x = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    StandIn("stood_for", str(path), "x = 2\n").install()
    try:
        module = importlib.import_module("stood_for")
        assert (module.x, module.__file__) == (2, str(path))
    finally:
        sys.modules.pop("stood_for", None)
    assert path.read_text() == "x = 1\n"
