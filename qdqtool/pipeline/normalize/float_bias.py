"""Biases stored as codes, into float biases."""

from collections.abc import Iterator

from qdqtool.pipeline._repair import Proposal
from qdqtool.pipeline.normalize._rules import fixes_of
from qdqtool.rules import Facts


def find(facts: Facts) -> Iterator[Proposal]:
    """What rule QL301 reports."""
    yield from fixes_of(facts, "float-bias", "QL301")
