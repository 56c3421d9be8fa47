"""Store codes as they reach their DQ, where a Clip, Transpose or Reshape of constant codes stands between."""

from collections.abc import Iterator

from qdqtool.linting.repair.fix_loop import Proposal
from qdqtool.linting.repair.forms._rules import fixes_of
from qdqtool.linting.rules import RuleContext


def find(context: RuleContext) -> Iterator[Proposal]:
    """Yield what rule QL312 reports and can fold."""
    yield from fixes_of(context, "stored-codes", "QL312")
