"""What to try next, one kind of advice a module. The package is walked: there is no list to edit.

A module exposes ``ADVICE``, a :class:`qdqtool.reports.page.advised.Advice`. It is made of facts in the reports alone,
and each command is one that works where the reports were made.
"""

from functools import cache

from qdqtool.registry import load_unit, unit_names
from qdqtool.reports.page import advice as _package
from qdqtool.reports.page.advised import Advice


@cache
def every_advice() -> tuple[Advice, ...]:
    """Return every kind of advice, that which comes first in front."""
    found = (load_unit(_package, name).ADVICE for name in unit_names(_package))
    return tuple(sorted(found, key=lambda advice: advice.order))
