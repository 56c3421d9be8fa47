"""The insert report for a terminal."""

from rich.console import Console
from rich.text import Text

from qdqtool.pipeline.insert import InsertReport
from qdqtool.pipeline.plan_apply import QuantizedTensor
from qdqtool.report.terminal import escape, plural, sizes_line

SHOWN = 40


def render(report: InsertReport, console: Console) -> None:
    """Print what was quantized, how large the files are and where the output is."""
    weights = sum(pair.kind == "weight" for pair in report.quantized)
    activations = len(report.quantized) - weights
    console.print(
        Text.assemble(
            (f"{plural(activations, 'activation')} and {plural(weights, 'weight')} quantized", "bold"),
            f" in {escape(report.model)}",
        )
    )
    for pair in report.quantized[:SHOWN]:
        console.print(_line(pair))
    if len(report.quantized) > SHOWN:
        console.print(f"  … and {len(report.quantized) - SHOWN} more (--output-format json lists all)")
    if report.opset_after != report.opset_before:
        console.print(f"opset raised from {report.opset_before} to {report.opset_after}, as the formats need")
    if report.verified:
        console.print(f"verified: {report.verified}")
    console.print(sizes_line(report.sizes.before, report.sizes.after))
    console.print(Text.assemble("wrote ", (escape(report.output), "bold")))
    if report.external_data:
        console.print(Text.assemble("weights in ", (escape(report.external_data), "bold")))


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
