"""The sensitivity report for a terminal: the layers, the one that makes most noise first."""

import shlex

from rich.console import Console
from rich.text import Text

from qdqtool.accuracy.layers.effects import MetricEffect
from qdqtool.errors import plural
from qdqtool.jobs.advice import excluding, loud_layers
from qdqtool.jobs.sensitivity_report import NodeEffect, SensitivityReport
from qdqtool.reports.bars import BarTable
from qdqtool.reports.terminal import escape, limit, print_rest

SHOWN = 20


def render(report: SensitivityReport, console: Console) -> None:
    """Print the outputs with all layers quantized, then what each layer does."""
    layers = plural(len(report.nodes), "layer")
    console.print(
        Text.assemble(
            (layers, "bold"),
            f" of {escape(report.model)} in {escape(report.mode)} for {escape(report.target)}, on ",
            plural(report.samples, "sample"),
        )
    )
    used = report.calibration
    if used is not None and used.random:
        console.print(f"RANDOM data, seed {used.seed}: it says nothing about real inputs", style="yellow")
    known = {output.name: output.sqnr_db for output in report.outputs if output.sqnr_db is not None}
    if known:
        worst = min(known, key=lambda name: known[name])
        console.print(f"worst output with all quantized: {escape(worst)}, {known[worst]:.1f} dB")
        weights, activations = _decibels(report.weights_only_db), _decibels(report.activations_only_db)
        console.print(f"weights alone: {weights}; activations alone: {activations}")
    if report.metric is not None:
        _print_metric(report.metric, console)
    for name in (output.name for output in report.outputs if not output.finite):
        console.print(f"output {escape(name)} has NaN or infinity that the float model does not have", style="red")
    _print_table(report.nodes[: limit(console, SHOWN)], report.metric, console)
    print_rest(len(report.nodes), SHOWN, console)
    _print_hint(report, console)


def _print_metric(metric: MetricEffect, console: Console) -> None:
    what = "prediction" if metric.output is not None else "sample"
    unit, loss_unit = (f" {each}" if each else "" for each in (metric.unit, metric.loss_unit))
    console.print(
        f"{escape(metric.name)}: float model {metric.float_value:.6g}{unit}, quantized {metric.value:.6g}{unit}, "
        f"a loss of {metric.loss:.4g}{loss_unit} on {plural(metric.predictions, what)}",
        soft_wrap=True,
    )
    if metric.chance is not None:
        console.print(f"the float model is at chance: {escape(metric.chance)}", style="yellow", soft_wrap=True)
    if metric.layer_samples < metric.samples:
        console.print(
            f"each layer on the first {plural(metric.layer_samples, 'sample')} only: float model "
            f"{metric.layer_float_value:.6g}{unit}, quantized {metric.layer_value:.6g}{unit} on "
            f"{plural(metric.layer_predictions, what)}",
            soft_wrap=True,
        )


def _decibels(value: float | None) -> str:
    return "no noise" if value is None else f"{value:.1f} dB"


def _print_table(nodes: tuple[NodeEffect, ...], metric: MetricEffect | None, console: Console) -> None:
    # The name of the metric stands in the line above; here it would be as wide as the table.
    scored = () if metric is None else ("metric alone", "metric without")
    figures = ("noise", "alone dB", "gain dB", "cost", *scored)
    # No other line has the names of all layers, so that none is shortened.
    table = BarTable(
        "layer", texts=("operator",), bars="share of noise", figures=figures, of_whole=True, shortens=False
    )
    for node in nodes:
        more = f" (+{len(node.nodes) - 1})" if len(node.nodes) > 1 else ""
        alone = "-" if node.worst_sqnr_db is None else f"{node.worst_sqnr_db:.1f}"
        if not all(output.finite for output in node.outputs):
            alone = "not finite"
        costs = (f"{node.noise_share:.1%}", alone, f"{node.gain_db:+.2f}", f"{node.cost_share:.1%}")
        scores = () if node.metric is None else (f"{node.metric.alone:.6g}", f"{node.metric.without:.6g}")
        table.add_row(escape(node.node) + more, node.noise_share, (escape(node.op_type),), (*costs, *scores))
    console.print(table)


def _print_hint(report: SensitivityReport, console: Console) -> None:
    named = loud_layers([node.noise_share for node in report.nodes])
    words = excluding(pattern for node in report.nodes[:named] for pattern in node.exclude)
    if words and named < len(report.nodes):
        console.print(f"to leave the first {named} in float: " + escape(shlex.join(words)), soft_wrap=True)
    console.print("to reach an accuracy with few layers in float: `qdqtool quantize --min-sqnr DB`")
