"""The targets as data. Each module defines one as ``TARGET``; its file name (with ``-`` for ``_``) is the public id.

A module with ``RELEASES`` also describes older releases of its target; their ids are like ``tensorrt-10.8``.
"""

import functools

from qdqtool.errors import ArgumentError
from qdqtool.models import targets as _package
from qdqtool.models.targets._target import RefusedProperty as RefusedProperty
from qdqtool.models.targets._target import Target as Target
from qdqtool.models.targets._target import capabilities as capabilities
from qdqtool.models.targets._target import capability_name as capability_name
from qdqtool.models.targets._target import capability_title as capability_title
from qdqtool.models.targets._target import refusals as refusals
from qdqtool.models.targets._target import type_name as type_name
from qdqtool.models.targets._tensorrt import ReleaseChange as ReleaseChange
from qdqtool.models.targets._tensorrt import Releases
from qdqtool.registry import load_unit, suggestion, unit_names

DEFAULT = "tensorrt"


def names() -> tuple[str, ...]:
    """Return the public ids of all targets, sorted."""
    return tuple(name.replace("_", "-") for name in unit_names(_package))


def releases(name: str) -> tuple[str, ...]:
    """Return the public ids of the releases of a target, oldest first; empty if its releases do not differ."""
    found = _releases(name)
    return tuple(f"{name}-{number}" for number in found.numbers) if found is not None else ()


def changes(name: str) -> tuple[ReleaseChange, ...]:
    """Return the changes between the releases of a target, newest first."""
    found = _releases(name)
    return found.changes if found is not None else ()


def of_release(name: str, version: str) -> str:
    """Return the public id of the release of a version such as ``10.8.0.43``, or ``name`` if there is none."""
    found = f"{name}-{'.'.join(version.split('.')[:2])}"
    return found if found in releases(name) else name


def legal() -> str:
    """Return the public ids of all targets as text, for messages and help."""
    spans = [(found[0], found[-1]) for found in map(releases, names()) if found]
    return ", ".join([*names(), *(f"{first} to {last}" for first, last in spans)])


@functools.cache
def get(name: str) -> Target:
    """Return the target with this public id.

    Raises:
        ArgumentError: There is no such target; the message lists the legal ids.
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
