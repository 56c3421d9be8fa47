"""The sections that compare two models, one a module. The package is walked: there is no list to edit.

A module exposes ``SECTION``, a :class:`qdqtool.page.section.Section` of a pair of models.
"""

from functools import cache

from qdqtool.page import comparison as _package
from qdqtool.page.pair import Pair
from qdqtool.page.section import Section
from qdqtool.registry import load_unit, unit_names


@cache
def every_comparison() -> tuple[Section[Pair], ...]:
    """Return every section in the order of the page."""
    found = (load_unit(_package, name).SECTION for name in unit_names(_package))
    return tuple(sorted(found, key=lambda section: section.order))
