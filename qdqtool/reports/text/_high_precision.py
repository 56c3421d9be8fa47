"""What became of the float part of a quantized model, for a terminal."""

from itertools import groupby

from rich.console import Console

from qdqtool.errors import plural
from qdqtool.models.transforms.float16 import Float32Node
from qdqtool.quantization.planning.high_precision import HighPrecisionReport
from qdqtool.reports.terminal import escape
from qdqtool.reports.text._calibration import SHOWN, SHOWN_NODES
from qdqtool.reports.text._rest import limit, print_rest


def print_high_precision(report: HighPrecisionReport | None, console: Console) -> None:
    """Print how many nodes compute in float16, and why the others do not, those with the same reason together."""
    if report is None:
        return
    if report.note:
        console.print(f"note     --high-precision-dtype {report.dtype} changed nothing: {report.note}", style="yellow")
        return
    total = report.nodes + len(report.kept)
    console.print(f"{report.nodes} of {plural(total, 'float node')} in float16, {plural(report.casts, 'Cast')} added")
    if not report.measured:
        console.print("note     without data nothing is known of how large activations become", style="yellow")
    groups = [(reason, list(nodes)) for reason, nodes in groupby(sorted(report.kept, key=_reason), _reason)]
    for reason, nodes in groups[: limit(console, SHOWN)]:
        console.print(f"  float32 {_named(nodes)}: {escape(reason)}")
    print_rest(len(groups), SHOWN, console)


def _reason(node: Float32Node) -> str:
    return node.reason


def _named(nodes: list[Float32Node]) -> str:
    shown = ", ".join(f"{escape(node.op_type)} {escape(node.node)}" for node in nodes[:SHOWN_NODES])
    return f"{shown}, … ({len(nodes)} in all)" if len(nodes) > SHOWN_NODES else shown
