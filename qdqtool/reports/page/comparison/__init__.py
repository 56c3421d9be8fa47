"""The sections that compare two models, one a module. The package is walked: there is no list to edit.

A module exposes ``SECTION``, a :class:`qdqtool.reports.page.section.Section` of a pair of models.
"""

from functools import cache

from qdqtool.registry import load_unit, unit_names
from qdqtool.reports.page import comparison as _package
from qdqtool.reports.page.pair import Pair
from qdqtool.reports.page.section import Section


@cache
def every_comparison() -> tuple[Section[Pair], ...]:
    """Return every section in the order of the page."""
    found = (load_unit(_package, name).SECTION for name in unit_names(_package))
    return tuple(sorted(found, key=lambda section: section.order))
