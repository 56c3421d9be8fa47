"""Store scales that are computed from constants."""

from collections.abc import Iterator

from qdqtool.repair.fix_loop import Proposal
from qdqtool.repair.forms._rules import fixes_of
from qdqtool.rules import RuleContext


def find(context: RuleContext) -> Iterator[Proposal]:
    """Yield what rule QP111 reports."""
    yield from fixes_of(context, "computed-scale", "QP111")
