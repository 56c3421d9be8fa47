"""Take out a Clip of codes between Q and DQ, the narrow range of Brevitas."""

from collections.abc import Iterator

from qdqtool.linting.repair.fix_loop import Proposal
from qdqtool.linting.repair.forms._rules import fixes_of
from qdqtool.linting.rules import RuleContext
from qdqtool.linting.rules.fixes.clipped_codes import CLIPPED


def find(context: RuleContext) -> Iterator[Proposal]:
    """Yield the Clips that rule QS007 reports."""
    yield from fixes_of(context, "clipped-codes", "QS007", CLIPPED)
