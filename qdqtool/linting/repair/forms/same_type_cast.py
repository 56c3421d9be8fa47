"""Take out a Cast of codes to the type that they have, as FX exports of PyTorch write it."""

from collections.abc import Iterator

from qdqtool.linting.repair.fix_loop import Proposal
from qdqtool.linting.repair.forms._rules import fixes_of
from qdqtool.linting.rules import RuleContext
from qdqtool.linting.rules.fixes.same_type_cast import SAME_TYPE


def find(context: RuleContext) -> Iterator[Proposal]:
    """Yield the Casts that rule QS007 reports."""
    yield from fixes_of(context, "same-type-cast", "QS007", SAME_TYPE)
