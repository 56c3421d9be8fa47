"""What the reports of calibrate and quantize have in common: BatchNormalizations and skipped nodes."""

from collections.abc import Sequence

from rich.console import Console

from qdqtool.pipeline._prepare import BatchNormFolding
from qdqtool.pipeline.placement import SkippedNode
from qdqtool.report.terminal import escape, plural
from qdqtool.report.text._pairs import print_rest

SHOWN = 20


def print_batchnorm(folding: BatchNormFolding, console: Console) -> None:
    """Print what became of BatchNormalizations, if there were any to fold."""
    if not folding.found:
        return
    count = plural(folding.found, "BatchNormalization")
    if folding.max_difference is None:
        console.print(f"{count} {'folded' if folding.folded else 'not folded'}, as the ranges file says")
        return
    seen = f"outputs differ by {folding.max_difference:.2g} of their largest magnitude"
    if folding.folded:
        console.print(f"{count} folded: {seen}, limit {folding.limit:g}")
    else:
        console.print(f"{count} NOT folded: {seen}, more than {folding.limit:g}", style="yellow")


def print_skipped(skipped: Sequence[SkippedNode], console: Console) -> None:
    """Print the quantizable nodes that stay float, with their reasons."""
    if not skipped:
        return
    console.print(f"{plural(len(skipped), 'node')} left in float", style="bold")
    for node in skipped[:SHOWN]:
        scope = f" in {escape(node.graph)}" if node.graph else ""
        console.print(f"  {escape(node.node)} ({escape(node.op_type)}){scope}: {escape(node.reason)}")
    print_rest(len(skipped), SHOWN, console)
