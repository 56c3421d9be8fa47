"""Q/DQ of com.microsoft, into those of ONNX."""

from collections.abc import Iterator

from qdqtool.pipeline._repair import Proposal
from qdqtool.pipeline.normalize._rules import fixes_of
from qdqtool.rules import Facts


def find(facts: Facts) -> Iterator[Proposal]:
    """What rule QS010 reports."""
    yield from fixes_of(facts, "microsoft-domain", "QS010")
