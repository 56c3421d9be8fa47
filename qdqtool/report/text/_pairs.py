"""What the reports of insert and quantize have in common: the pairs that were put in, and the files written."""

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from qdqtool.graph.io.save import Sizes
from qdqtool.insertion.apply_plan import QuantizedTensor
from qdqtool.report.terminal import escape, plural, sizes_line

SHOWN = 40


def print_pairs(pairs: Sequence[QuantizedTensor], model: str, console: Console) -> None:
    """Print how many pairs there are, then each of the first :data:`SHOWN`."""
    weights = sum(pair.kind == "weight" for pair in pairs)
    counts = f"{plural(len(pairs) - weights, 'activation')} and {plural(weights, 'weight')} quantized"
    console.print(Text.assemble((counts, "bold"), f" in {escape(model)}"))
    for pair in pairs[:SHOWN]:
        console.print(_line(pair))
    print_rest(len(pairs), SHOWN, console)


def print_rest(count: int, shown: int, console: Console) -> None:
    """Print how many of a list are not shown."""
    if count > shown:
        console.print(f"  … and {count - shown} more (--output-format json lists all)")


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
