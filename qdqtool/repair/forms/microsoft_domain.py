"""Q/DQ of com.microsoft, into those of ONNX."""

from collections.abc import Iterator

from qdqtool.repair.fix_loop import Proposal
from qdqtool.repair.forms._rules import fixes_of
from qdqtool.rules import RuleContext


def find(context: RuleContext) -> Iterator[Proposal]:
    """What rule QS010 reports."""
    yield from fixes_of(context, "microsoft-domain", "QS010")
