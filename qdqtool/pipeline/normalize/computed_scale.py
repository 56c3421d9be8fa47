"""Scales computed from constants, into stored scales."""

from collections.abc import Iterator

from qdqtool.pipeline._repair import Proposal
from qdqtool.pipeline.normalize._rules import fixes_of
from qdqtool.rules import Facts


def find(facts: Facts) -> Iterator[Proposal]:
    """What rule QP111 reports."""
    yield from fixes_of(facts, "computed-scale", "QP111")
