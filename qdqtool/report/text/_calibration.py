"""What the reports of calibrate and quantize have in common: BatchNormalizations and skipped nodes."""

from collections.abc import Sequence

from rich.console import Console

from qdqtool.pipeline._prepare import BatchNormFolding
from qdqtool.pipeline.placement import SkippedNode
from qdqtool.report.terminal import escape, plural
from qdqtool.report.text._pairs import print_rest

SHOWN = 20
SHOWN_NODES = 4


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
    """Print the quantizable nodes that stay float, those with the same reason together."""
    if not skipped:
        return
    console.print(f"{plural(len(skipped), 'node')} left in float", style="bold")
    by_reason: dict[tuple[str, str], list[str]] = {}
    for node in skipped:
        label = f"{node.graph}/{node.node}" if node.graph else node.node
        by_reason.setdefault((node.op_type, node.reason), []).append(escape(label))
    for (op_type, reason), labels in list(by_reason.items())[:SHOWN]:
        more = f", … ({len(labels)} in all)" if len(labels) > SHOWN_NODES else ""
        console.print(f"  {escape(op_type)} {', '.join(labels[:SHOWN_NODES])}{more}: {escape(reason)}")
    print_rest(len(by_reason), SHOWN, console)
