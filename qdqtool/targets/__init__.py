"""The targets, one a module, as data: the file name (``-`` for ``_``) is the public id, ``TARGET`` the value."""

import functools

from qdqtool import targets as _package
from qdqtool.errors import ArgumentError
from qdqtool.registry import load_unit, suggestion, unit_names
from qdqtool.targets._alternatives import Refusal as Refusal
from qdqtool.targets._alternatives import refusals as refusals
from qdqtool.targets._capability import capabilities as capabilities
from qdqtool.targets._capability import capability_name as capability_name
from qdqtool.targets._target import Target as Target
from qdqtool.targets._target import type_name as type_name

DEFAULT = "tensorrt"


def names() -> tuple[str, ...]:
    """The public ids of all targets, sorted."""
    return tuple(name.replace("_", "-") for name in unit_names(_package))


@functools.cache
def get(name: str) -> Target:
    """The target of that public id.

    Raises:
        ArgumentError: There is none; the message lists the legal names.
    """
    if name not in names():
        raise ArgumentError(f"target '{name}' is unknown; legal: {', '.join(names())}{suggestion(name, names())}")
    found = load_unit(_package, name.replace("-", "_")).TARGET
    assert isinstance(found, Target)
    return found
