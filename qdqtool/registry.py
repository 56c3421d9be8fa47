"""Find plug-in units in a package: each module is a unit, and its file name is its public id."""

import difflib
import importlib
import pkgutil
from collections.abc import Iterable
from types import ModuleType


def unit_names(package: ModuleType) -> tuple[str, ...]:
    """Return the sorted public ids in ``package``: its modules whose names do not begin with an underscore."""
    found = (info.name for info in pkgutil.iter_modules(package.__path__) if not info.ispkg)
    return tuple(sorted(name for name in found if not name.startswith("_")))


def load_unit(package: ModuleType, name: str) -> ModuleType:
    """Import the module of one unit. The caller must check that ``name`` is one of :func:`unit_names`."""
    return importlib.import_module(f"{package.__name__}.{name}")


def suggestion(word: str, legal: Iterable[str]) -> str:
    """Return ``; did you mean 'X'?`` for an error message, or an empty text if no legal word is similar."""
    near = difflib.get_close_matches(word, list(legal), n=1, cutoff=0.6)
    return f"; did you mean '{near[0]}'?" if near else ""
