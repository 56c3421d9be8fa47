"""Finding plug-in units by walking a package: one module is one unit, its file name is its public id."""

import difflib
import importlib
import pkgutil
from collections.abc import Iterable
from types import ModuleType


def unit_names(package: ModuleType) -> tuple[str, ...]:
    """The public ids in ``package``, sorted: its modules, less packages and what begins with an underscore."""
    found = (info.name for info in pkgutil.iter_modules(package.__path__) if not info.ispkg)
    return tuple(sorted(name for name in found if not name.startswith("_")))


def load_unit(package: ModuleType, name: str) -> ModuleType:
    """Import the module of one unit. The caller has checked that ``name`` is one of :func:`unit_names`."""
    return importlib.import_module(f"{package.__name__}.{name}")


def suggestion(word: str, legal: Iterable[str]) -> str:
    """A did-you-mean tail for an error message: empty when nothing legal is near ``word``."""
    near = difflib.get_close_matches(word, list(legal), n=1, cutoff=0.6)
    return f"; did you mean '{near[0]}'?" if near else ""
