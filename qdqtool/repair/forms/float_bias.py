"""Biases stored as codes, into float biases."""

from collections.abc import Iterator

from qdqtool.repair.fix_loop import Proposal
from qdqtool.repair.forms._rules import fixes_of
from qdqtool.rules import RuleContext


def find(context: RuleContext) -> Iterator[Proposal]:
    """What rule QL301 reports."""
    yield from fixes_of(context, "float-bias", "QL301")
