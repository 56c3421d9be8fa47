"""Scales computed from constants, into stored scales."""

from collections.abc import Iterator

from qdqtool.repair.fix_loop import Proposal
from qdqtool.repair.forms._rules import fixes_of
from qdqtool.rules import RuleContext


def find(context: RuleContext) -> Iterator[Proposal]:
    """What rule QP111 reports."""
    yield from fixes_of(context, "computed-scale", "QP111")
