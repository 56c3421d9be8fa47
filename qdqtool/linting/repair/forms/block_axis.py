"""Write the axis that block scales divide where a node names another one, as Model Optimizer's int4 RTN does."""

from collections.abc import Iterator

from qdqtool.linting.repair.fix_loop import Proposal
from qdqtool.linting.repair.forms._rules import fixes_of
from qdqtool.linting.rules import RuleContext
from qdqtool.linting.rules.fixes.reblock import FITTED


def find(context: RuleContext) -> Iterator[Proposal]:
    """Yield what rule QA203 reports and can fix by the axis."""
    yield from fixes_of(context, "block-axis", "QA203", FITTED)
