"""The targets as data, one in each module: the file name (``-`` for ``_``) is the public id, ``TARGET`` the value.

A module with ``RELEASES`` also describes older releases of its target; their ids are ``tensorrt-10.8`` and the like.
"""

import functools

from qdqtool.errors import ArgumentError
from qdqtool.models import targets as _package
from qdqtool.models.targets._target import RefusedProperty as RefusedProperty
from qdqtool.models.targets._target import Target as Target
from qdqtool.models.targets._target import capabilities as capabilities
from qdqtool.models.targets._target import capability_name as capability_name
from qdqtool.models.targets._target import refusals as refusals
from qdqtool.models.targets._target import type_name as type_name
from qdqtool.models.targets._tensorrt import ReleaseChange as ReleaseChange
from qdqtool.models.targets._tensorrt import Releases
from qdqtool.registry import load_unit, suggestion, unit_names

DEFAULT = "tensorrt"


def names() -> tuple[str, ...]:
    """The public ids of all targets, sorted."""
    return tuple(name.replace("_", "-") for name in unit_names(_package))


def releases(name: str) -> tuple[str, ...]:
    """The public ids of the releases of a target, oldest first; empty where its releases do not differ."""
    found = _releases(name)
    return tuple(f"{name}-{number}" for number in found.numbers) if found is not None else ()


def changes(name: str) -> tuple[ReleaseChange, ...]:
    """The changes that the releases of a target brought, newest first."""
    found = _releases(name)
    return found.changes if found is not None else ()


def of_release(name: str, version: str) -> str:
    """Return the public id of the release of a version such as ``10.8.0.43``; ``name`` where there is none."""
    found = f"{name}-{'.'.join(version.split('.')[:2])}"
    return found if found in releases(name) else name


def legal() -> str:
    """The public ids of all targets in words, for messages and help."""
    spans = [(found[0], found[-1]) for found in map(releases, names()) if found]
    return ", ".join([*names(), *(f"{first} to {last}" for first, last in spans)])


@functools.cache
def get(name: str) -> Target:
    """The target of that public id.

    Raises:
        ArgumentError: There is none; the message lists the legal names.
    """
    if name in names():
        found = load_unit(_package, name.replace("-", "_")).TARGET
        assert isinstance(found, Target)
        return found
    base, _, number = name.rpartition("-")
    line = _releases(base)
    if line is not None and number in line.numbers:
        return line.older(get(base), number)
    known = [*names(), *(release for each in names() for release in releases(each))]
    near = [release for release in known if release.startswith(f"{name}.")][-1:] or known
    raise ArgumentError(f"target '{name}' is unknown; legal: {legal()}{suggestion(name, near)}")


def _releases(name: str) -> Releases | None:
    if name not in names():
        return None
    found = getattr(load_unit(_package, name.replace("-", "_")), "RELEASES", None)
    assert found is None or isinstance(found, Releases)
    return found
