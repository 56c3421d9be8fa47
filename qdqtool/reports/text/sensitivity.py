"""The layers and tensors that make the noise, for a terminal; `render` prints the sensitivity report."""

import shlex
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from qdqtool.accuracy.checking.report import BoundaryResult, OutputResult
from qdqtool.accuracy.checking.sample_errors import is_outlier
from qdqtool.accuracy.report import BlamedLayer, BlameReport, MetricEffect, NoiseCause, SampleDistribution, WorstSample
from qdqtool.errors import escape, plural
from qdqtool.jobs.sensitivity_report import NodeEffect, SensitivityReport
from qdqtool.quantization.report import TensorAccuracy
from qdqtool.reports.advice import clipping_cause, dominant_layers, excluding, leaves_some
from qdqtool.reports.bars import BarTable
from qdqtool.reports.terminal import limit, placed, print_rest

SHOWN_EFFECTS = 20


def render(report: SensitivityReport, console: Console) -> None:
    """Print the outputs with all layers quantized, then the effect of each layer."""
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
        weights, activations = _in_decibels(report.weights_only_db), _in_decibels(report.activations_only_db)
        console.print(f"only weights quantized: {weights}; only activations quantized: {activations}")
    if report.metric is not None:
        _print_metric(report.metric, console)
    for name in (output.name for output in report.outputs if not output.finite):
        console.print(f"output {escape(name)} has NaN or infinity that the float model does not have", style="red")
    _print_layers(report.nodes[: limit(console, SHOWN_EFFECTS)], report.metric, console)
    print_rest(len(report.nodes), SHOWN_EFFECTS, console)
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
        console.print(
            f"the float model is not better than guessing: {escape(metric.chance)}", style="yellow", soft_wrap=True
        )
    if metric.layer_samples < metric.samples:
        console.print(
            f"layers are measured on the first {plural(metric.layer_samples, 'sample')}: float model "
            f"{metric.layer_float_value:.6g}{unit}, quantized {metric.layer_value:.6g}{unit} on "
            f"{plural(metric.layer_predictions, what)}",
            soft_wrap=True,
        )


def _in_decibels(value: float | None) -> str:
    return "no noise" if value is None else f"{value:.1f} dB"


def _print_layers(nodes: tuple[NodeEffect, ...], metric: MetricEffect | None, console: Console) -> None:
    # The name of the metric is in the line above; here it would be as wide as the table.
    scored = () if metric is None else ("metric alone", "metric without")
    figures = ("noise", "alone dB", "gain dB", "cost", *scored)
    # No other line has the names of all layers, so names are not shortened.
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
    named = dominant_layers([node.noise_share for node in report.nodes])
    words = excluding(pattern for node in report.nodes[:named] for pattern in node.exclude)
    if words and named < len(report.nodes):
        console.print(f"to leave the first {named} in float: " + escape(shlex.join(words)), soft_wrap=True)
    console.print("to reach an accuracy with few layers in float: `qdqtool quantize --min-sqnr DB`")


SHOWN_LAYERS = 5


def print_blame(blame: BlameReport, console: Console) -> None:
    """Print that no layer dominates; or the layers with their shares, and the options that leave them in float."""
    if blame.problem:
        console.print(Text(f"layers NOT measured: {escape(blame.problem)}", "yellow"))
        return
    if not blame.layers:
        console.print(_nothing(blame))
        return
    output, samples = escape(blame.output), plural(blame.samples, "sample")
    console.print(Text.assemble(("layers", "bold"), f" that make most of the noise at {output}, on {samples}"))
    _print_blame_table(blame.layers, console)
    for layer in blame.layers:
        if layer.dominant:
            console.print(_dominant(layer, blame))
    if blame.rest_share > blame.layers[-1].noise_share:
        runs = plural(blame.runs, "run")
        console.print(f"each other layer makes at most {blame.rest_share:.0%} ({runs} of one sample)")
    if not leaves_some(layer.macs_share for layer in blame.layers):
        console.print("no other layer is quantized: without them it is a float model; try another mode")
        return
    options = shlex.join(excluding(word for layer in blame.layers for word in layer.exclude))
    whom = "it" if len(blame.layers) == 1 else "them"
    clipping = clipping_cause(blame)
    if clipping is None:
        console.print(f"to leave {whom} in float: `{escape(options)}`", soft_wrap=True)
    else:
        console.print(_clipping(clipping, blame.calibrator), style="yellow", soft_wrap=True)


FAR_DB = 10.0
"""If an output gains less than this when all pairs are switched off, pairs are not the only cause."""


def print_pairs_blamed(blame: BlameReport, console: Console) -> None:
    """Print the layers whose pairs cost the output most, pairs that could not be switched, and unexplained noise."""
    _print_causes(blame, console)
    print_blame(blame, console)
    if blame.float_db is not None and (blame.whole_db is None or blame.float_db < blame.whole_db + FAR_DB):
        console.print(
            f"with all switchable pairs off, {escape(blame.output)} has {blame.float_db:.1f} dB against the baseline: "
            "the two models also differ in other ways",
            style="yellow",
        )
    for left in blame.left_out[: limit(console, SHOWN_LAYERS)]:
        console.print(f"always on  {escape(left)}")
    print_rest(len(blame.left_out), SHOWN_LAYERS, console)


_UNDONE = {
    "clipping activations": "activations with much clipping, in float",
    "per-tensor weights": "weights, with one scale for each channel",
}


def _print_causes(blame: BlameReport, console: Console) -> None:
    """Print the SQNR of the worst output with one part of the quantization undone, for each part."""
    if len(blame.causes) < 2:
        return
    heading = f"{escape(blame.output)}: {_in_decibels(blame.whole_db)}; with one part of the quantization switched off:"
    console.print(Text(heading, "bold"))
    for each in blame.causes:
        undone = _UNDONE.get(each.cause, f"{escape(each.cause)} in float")
        console.print(f"  {each.sites} x {undone}: {_in_decibels(each.undone_db)}")


def _clipping(cause: NoiseCause, calibrator: str) -> str:
    """Return how much the ranges clip, and the option that finds other ranges."""
    recorded = f" of the method '{escape(calibrator)}', which the model records," if calibrator else ""
    return (
        f"the ranges{recorded} clip up to {cause.clipped_share:.0%} of the values of a tensor; before leaving layers "
        "in float, calibrate again: `--calibration-method max`"
    )


def _print_blame_table(layers: tuple[BlamedLayer, ...], console: Console) -> None:
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
        f"{_in_decibels(blame.whole_db)} if it is quantized and {_in_decibels(layer.without_db)} if it is in float; "
        f"it has {layer.macs_share:.2%} of the multiply-accumulates and {layer.weights_share:.2%} of the weights"
    )


def _nothing(blame: BlameReport) -> str:
    where = f"of the noise at {escape(blame.output)}"
    if blame.rest_share <= 0.5:
        return f"no single layer dominates: each makes at most {blame.rest_share:.0%} {where}"
    return f"{plural(blame.runs, 'run')} of one sample found no layer that makes most {where}"


def _decibels(value: float | None) -> str:
    return "no noise" if value is None else f"{value:.1f}"


def print_worst_sample(output: OutputResult, console: Console) -> None:
    """Print the worst sample of an output, if it is far below the others and should be looked at."""
    if output.sample_sqnr is None or not output.worst_samples:
        return
    sample, all_ = output.worst_samples[0], output.sample_sqnr
    if is_outlier(sample.rankable_db, all_.median_db, all_.samples):
        console.print(
            f"worst sample of '{escape(output.name)}': {_named(sample)}, {_error(sample)}; {_others(all_)}",
            style="yellow",
        )


def _named(sample: WorstSample) -> str:
    more = f" and {plural(len(sample.files) - 1, 'more file')}" if len(sample.files) > 1 else ""
    return f"number {sample.number}" + (f" ({escape(sample.files[0])}{more})" if sample.files else "")


def _error(sample: WorstSample) -> str:
    if sample.nonfinite:
        verb = "is" if sample.nonfinite == 1 else "are"
        return f"with {plural(sample.nonfinite, 'element')} that {verb} NaN or infinite in one model only"
    if sample.sqnr_db is None:
        return f"with an error of {sample.max_abs:.4g}; the baseline is 0 everywhere"
    return f"with {sample.sqnr_db:.2f} dB"


def _others(samples: SampleDistribution) -> str:
    return f"the median of {plural(samples.samples, 'sample')} is {samples.median_db:.2f} dB"


SHOWN_TENSORS = 8
"""Largest number of rows of a table, so that the verdict also fits on a terminal of 24 lines."""

_LARGEST = 300
"""Largest exponent of 10: the ratio must not overflow."""


def print_noisiest(boundaries: Sequence[BoundaryResult], console: Console) -> None:
    """Print the tensors of a check with most noise relative to the baseline, if a tensor has noise.

    Args:
        boundaries: The quantized tensors; tensors without noise or with a baseline of 0 have no SQNR.
        console: Where to print.
    """
    # A bias that is small beside a step is lost, which no output shows.
    noisy = [(each, each.sqnr_db) for each in boundaries if each.sqnr_db is not None and each.kind != "bias"]
    if not noisy:
        return
    shown = sorted(noisy, key=lambda each: each[1])[:SHOWN_TENSORS]
    rows = [(found.tensor, found.graph, found.kind, sqnr_db) for found, sqnr_db in shown]
    console.print()
    console.print(
        f"most noise against the baseline, {len(rows)} of {plural(len(boundaries), 'quantized tensor')}", style="bold"
    )
    _print_tensors(rows, console)


def print_pair_errors(worst: Sequence[TensorAccuracy], console: Console) -> None:
    """Print the pairs that change their own tensor most, if the report lists such pairs."""
    if not worst:
        return
    console.print("largest errors of pairs on their own tensors; outputs may be less affected", style="bold")
    _print_tensors([(found.tensor, found.graph, found.kind, found.sqnr_db) for found in worst[:SHOWN_TENSORS]], console)


def _print_tensors(rows: Sequence[tuple[str, str, str, float]], console: Console) -> None:
    table = BarTable("  tensor", texts=("kind",), bars="RMS noise / signal", figures=("noise", "SQNR dB"))
    for tensor, graph, kind, sqnr_db in rows:
        noise = relative_noise(sqnr_db)
        table.add_row(f"  {placed(tensor, graph)}", noise, (kind,), (_percent(noise), f"{sqnr_db:.1f}"))
    console.print(table)


def relative_noise(sqnr_db: float) -> float:
    """Return the RMS of the noise divided by the RMS of the signal: 0.1 for 20 dB."""
    return 10 ** min(-sqnr_db / 20, _LARGEST)


def _percent(share: float) -> str:
    if share >= 10:
        return f"{100 * share:.3g}%"
    return f"{share:.2%}" if share >= 0.0001 else "< 0.01%"
