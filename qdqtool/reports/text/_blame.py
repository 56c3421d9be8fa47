"""The layers that make most of the noise at the worst output, for a terminal."""

import shlex

from rich.console import Console
from rich.text import Text

from qdqtool.accuracy.layers.blame_report import BlamedLayer, BlameReport
from qdqtool.errors import plural
from qdqtool.jobs.advice import excluding
from qdqtool.reports.bars import BarTable
from qdqtool.reports.terminal import escape
from qdqtool.reports.text._rest import limit, print_rest

SHOWN = 5


def print_blame(blame: BlameReport, console: Console) -> None:
    """Print the layers with their shares, and the options that leave them in float; else that none stands out."""
    if blame.problem:
        console.print(Text(f"layers NOT measured: {escape(blame.problem)}", "yellow"))
        return
    if not blame.layers:
        console.print(_nothing(blame))
        return
    output, samples = escape(blame.output), plural(blame.samples, "sample")
    console.print(Text.assemble(("layers", "bold"), f" that make most of the noise at {output}, on {samples}"))
    _print_table(blame.layers, console)
    for layer in blame.layers:
        if layer.dominant:
            console.print(_dominant(layer, blame))
    if blame.rest_share > blame.layers[-1].noise_share:
        runs = plural(blame.runs, "run")
        console.print(f"of the other layers none makes more than {blame.rest_share:.0%} ({runs} of a sample)")
    options = shlex.join(excluding(word for layer in blame.layers for word in layer.exclude))
    whom = "it" if len(blame.layers) == 1 else "them"
    console.print(f"to leave {whom} in float: `{escape(options)}`", soft_wrap=True)


FAR_DB = 10.0
"""With all pairs off an output is so much nearer to the baseline than with all on; else pairs are not the cause."""


def print_pairs_blamed(blame: BlameReport, console: Console) -> None:
    """Print the layers whose pairs cost the output most, what could not be switched, and what pairs do not explain."""
    print_blame(blame, console)
    if blame.float_db is not None and (blame.whole_db is None or blame.float_db < blame.whole_db + FAR_DB):
        console.print(
            f"with every pair off that can be switched, {escape(blame.output)} has {blame.float_db:.1f} dB against the "
            "baseline: other differences between the two models matter as well",
            style="yellow",
        )
    for left in blame.left_out[: limit(console, SHOWN)]:
        console.print(f"always on  {escape(left)}")
    print_rest(len(blame.left_out), SHOWN, console)


def _print_table(layers: tuple[BlamedLayer, ...], console: Console) -> None:
    table = BarTable(
        "  layer", texts=("operator",), bars="share of the noise", figures=("noise", "alone dB"), of_whole=True
    )
    for layer in layers:
        more = f" (+{len(layer.nodes) - 1})" if len(layer.nodes) > 1 else ""
        scope = f" in {escape(layer.graph)}" if layer.graph else ""
        figures = (f"{layer.noise_share:.1%}", _decibels(layer.alone_db))
        table.add_row(f"  {escape(layer.node)}{more}{scope}", layer.noise_share, (escape(layer.op_type),), figures)
    console.print(table)


def _dominant(layer: BlamedLayer, blame: BlameReport) -> str:
    return (
        f"{escape(layer.node)} makes more noise than all other layers together: {escape(blame.output)} has "
        f"{_with_unit(blame.whole_db)} with it quantized and {_with_unit(layer.without_db)} with it in float; it "
        f"has {layer.macs_share:.2%} of the multiply-accumulates and {layer.weights_share:.2%} of the weights"
    )


def _nothing(blame: BlameReport) -> str:
    where = f"of the noise at {escape(blame.output)}"
    if blame.rest_share <= 0.5:
        return f"no layer stands out: none makes more than {blame.rest_share:.0%} {where}"
    return f"no layer was found that makes most {where} within {plural(blame.runs, 'run')} of a sample"


def _decibels(value: float | None) -> str:
    return "no noise" if value is None else f"{value:.1f}"


def _with_unit(value: float | None) -> str:
    return _decibels(value) + ("" if value is None else " dB")
