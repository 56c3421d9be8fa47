"""Store biases as float that are stored as codes."""

from collections.abc import Iterator

from qdqtool.linting.repair.fix_loop import Proposal
from qdqtool.linting.repair.forms._rules import fixes_of
from qdqtool.linting.rules import RuleContext


def find(context: RuleContext) -> Iterator[Proposal]:
    """Yield what rule QL301 reports."""
    yield from fixes_of(context, "float-bias", "QL301")
