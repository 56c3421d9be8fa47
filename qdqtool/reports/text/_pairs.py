"""What the reports of insert and quantize have in common: the pairs that were put in, and the files written."""

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from qdqtool.errors import plural
from qdqtool.models.graph.io.save import Sizes
from qdqtool.quantization.insertion.apply_plan import QuantizedTensor
from qdqtool.reports.terminal import escape, sizes_line
from qdqtool.reports.text._rest import lists_all


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
