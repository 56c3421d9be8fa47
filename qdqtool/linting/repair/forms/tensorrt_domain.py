"""Rewrite Q/DQ that only TensorRT's parser knows as those of ONNX."""

from collections.abc import Iterator

from qdqtool.linting.repair.fix_loop import Proposal
from qdqtool.linting.repair.forms._rules import fixes_of
from qdqtool.linting.rules import RuleContext


def find(context: RuleContext) -> Iterator[Proposal]:
    """Yield what rule QS015 reports."""
    yield from fixes_of(context, "tensorrt-domain", "QS015")
