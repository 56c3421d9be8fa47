"""What the reports of insert and quantize have in common: the pairs that were put in, and the files written."""

from collections.abc import Sequence
from itertools import groupby

from rich.console import Console
from rich.text import Text

from qdqtool.errors import plural
from qdqtool.models.graph.io.save import Sizes
from qdqtool.models.graph.scope import NodeReason
from qdqtool.quantization.insertion.apply_plan import QuantizedTensor
from qdqtool.quantization.planning.high_precision import HighPrecisionReport
from qdqtool.reports.terminal import escape, limit, lists_all, print_rest, sizes_line
from qdqtool.reports.text._calibration import SHOWN, SHOWN_NODES


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


def _reason(node: NodeReason) -> str:
    return node.reason


def _named(nodes: list[NodeReason]) -> str:
    shown = ", ".join(f"{escape(node.op_type)} {escape(node.node)}" for node in nodes[:SHOWN_NODES])
    return f"{shown}, … ({len(nodes)} in all)" if len(nodes) > SHOWN_NODES else shown


def print_counts(pairs: Sequence[QuantizedTensor], model: str, console: Console) -> None:
    """Print how many tensors of a model have a pair now."""
    weights = sum(pair.kind == "weight" for pair in pairs)
    counts = f"{plural(len(pairs) - weights, 'activation')} and {plural(weights, 'weight')} quantized"
    listed = " (-v lists them)" if pairs and not lists_all(console) else ""
    console.print(Text.assemble((counts, "bold"), f" in {escape(model)}{listed}"))


def print_pairs(pairs: Sequence[QuantizedTensor], console: Console) -> None:
    """With ``--verbose``, print each pair with its format and scales."""
    if lists_all(console):
        for pair in pairs:
            console.print(_line(pair))


def print_opset(before: int, after: int, console: Console) -> None:
    """Print that the opset was raised, if it was."""
    if after != before:
        console.print(f"opset raised from {before} to {after}, as the formats need")


def print_files(output: str, external_data: str | None, sizes: Sizes, console: Console) -> None:
    """Print sizes and names of the files written."""
    console.print(sizes_line(sizes.before, sizes.after))
    console.print(Text.assemble("wrote ", (escape(output), "bold")))
    if external_data:
        console.print(Text.assemble("weights in ", (escape(external_data), "bold")))


def _line(pair: QuantizedTensor) -> Text:
    scales = f"scale {pair.scale_min:.4g}"
    if pair.scales > 1:
        scales = f"{pair.scales} scales {pair.scale_min:.4g} to {pair.scale_max:.4g}"
    scope = f" in {escape(pair.graph)}" if pair.graph else ""
    return Text.assemble(
        "  ",
        (f"{pair.kind:<10}", "cyan"),
        f" {escape(pair.tensor)}{scope}: {pair.format} {pair.granularity}, {scales}",
    )
