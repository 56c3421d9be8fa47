"""Replace unsigned and asymmetric codes by signed codes with zero point 0, where these hold the same values."""

from collections.abc import Iterator

from qdqtool.linting.repair.fix_loop import Proposal
from qdqtool.linting.repair.forms._rules import fixes_of
from qdqtool.linting.rules import RuleContext


def find(context: RuleContext) -> Iterator[Proposal]:
    """Yield what rules QP102 and QP103 report and can fix exactly."""
    yield from fixes_of(context, "signed-codes", "QP102")
    yield from fixes_of(context, "signed-codes", "QP103")
