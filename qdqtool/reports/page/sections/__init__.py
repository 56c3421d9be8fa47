"""The sections of the page, one in each module; there is no list to edit.

A module defines ``SECTION``, a :class:`qdqtool.reports.page.section.Section`.
"""

from functools import cache

from qdqtool.registry import load_unit, unit_names
from qdqtool.reports.page import sections as _package
from qdqtool.reports.page.section import Section


@cache
def every_section() -> tuple[Section, ...]:
    """Return every section in the order of the page."""
    found = (load_unit(_package, name).SECTION for name in unit_names(_package))
    return tuple(sorted(found, key=lambda section: section.order))
