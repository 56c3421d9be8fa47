"""Store scales and zero points that are computed from constants."""

from collections.abc import Iterator

from qdqtool.linting.repair.fix_loop import Proposal
from qdqtool.linting.repair.forms._rules import fixes_of
from qdqtool.linting.rules import RuleContext


def find(context: RuleContext) -> Iterator[Proposal]:
    """Yield what rules QP111 and QP107 report."""
    yield from fixes_of(context, "computed-scale", "QP111")
    yield from fixes_of(context, "computed-scale", "QP107")
