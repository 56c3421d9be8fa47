"""What quantizing cost the outputs, for a terminal."""

import math

from rich.console import Console
from rich.text import Text

from qdqtool.accuracy.checking.accuracy import Accuracy, OutputAccuracy
from qdqtool.accuracy.search.goal_report import GoalReport, MetricGoal
from qdqtool.accuracy.task_metrics.measure import MetricResult
from qdqtool.errors import plural
from qdqtool.reports.terminal import escape, limit, print_rest

SHOWN_STATES = 8


def print_goal(goal: GoalReport, console: Console) -> None:
    """Print how the goal was reached, and the layers that leave the quantized format, the most costly first."""
    before = "keeps no noise" if goal.worst_without_db is None else f"keeps {goal.worst_without_db:.1f} dB"
    if goal.worst_without_db is not None and math.isinf(goal.worst_without_db):
        before = "is NaN or infinite somewhere"
    limits = [] if goal.min_sqnr_db is None else [f"{goal.min_sqnr_db:g} dB"]
    if goal.metric is not None:
        limits.append(_loss(goal.metric.max_loss, goal.metric) + f" of {escape(goal.metric.name)}")
        before += f", and {escape(goal.metric.name)} loses {_loss(goal.metric.loss_without, goal.metric)}"
    finer = "" if goal.fallback is None else f" and {len(goal.finer)} in {goal.fallback}"
    console.print(
        f"{len(goal.left)} of {goal.layers} layers left in float{finer} for {' and '.join(limits)}, "
        f"{goal.float_share + goal.finer_share:.1%} of the cost; with all quantized the worst output {before}",
        style="bold",
    )
    if goal.metric is not None:
        _print_goal_metric(goal.metric, console)
    levels = [*((layer, "float") for layer in goal.left), *((layer, goal.fallback) for layer in goal.finer)]
    for layer, level in sorted(levels, key=lambda each: -each[0].share)[: limit(console, SHOWN_STATES)]:
        more = f" (+{len(layer.nodes) - 1})" if len(layer.nodes) > 1 else ""
        where = "" if goal.fallback is None else f"{level}, "
        console.print(f"  {escape(layer.op_type)} {escape(layer.node)}{more}: {where}{layer.share:.1%}")
    print_rest(len(levels), SHOWN_STATES, console)


def _print_goal_metric(metric: MetricGoal, console: Console) -> None:
    what = "samples" if metric.output is None else "predictions"
    console.print(
        f"  {escape(metric.name)} loses {_loss(metric.choosing_loss, metric)} on the {metric.choosing_predictions} "
        f"{what} that chose them, {_loss(metric.loss, metric)} on the {metric.predictions} that measure; "
        f"{plural(metric.models, 'model')} measured"
    )


def _loss(loss: float, metric: MetricGoal) -> str:
    return f"{loss:.4g} {metric.loss_unit}".rstrip()


SHOWN = 20
POOR_DB = 10.0
"""Below this noise is more than a tenth of the signal's power: no task survives it, so the line stands out."""

DOUBT_DB = 0.5
"""A standard error from this on is printed: so few or so uneven samples tell no more."""

LOST_DB = 0.0
"""Below this the gate `accuracy` of `check` fails."""


def print_accuracy(accuracy: Accuracy | None, console: Console, baseline: str = "float model") -> None:
    """Print what an output lost against the baseline, in dB."""
    if accuracy is None:
        console.print("accuracy not measured: there is no data (--calib-data)")
        return
    if accuracy.problem:
        console.print(Text(f"accuracy NOT measured: {escape(accuracy.problem)}", "yellow"))
        return
    console.print(Text.assemble(("SQNR", "bold"), f" against the {baseline}, on ", _samples(accuracy)))
    if accuracy.refitted:
        console.print("  with ranges of the other samples only; the written model has those of all")
    if not accuracy.outputs:
        console.print("  no output has float values to compare", style="yellow")
    for output in accuracy.outputs[: limit(console, SHOWN)]:
        console.print(_output_line(output))
    print_rest(len(accuracy.outputs), SHOWN, console)
    if accuracy.metric is not None:
        _print_metric(accuracy.metric, baseline, console)


def _print_metric(metric: MetricResult, baseline: str, console: Console) -> None:
    what = plural(metric.predictions, "prediction" if metric.output is not None else "sample")
    unit = f" {metric.unit}" if metric.unit else ""
    loss = "" if metric.loss is None else f", a loss of {metric.loss:.4g} {metric.loss_unit}".rstrip()
    known = "" if metric.baseline is None else f", {baseline} {metric.baseline:.6g}{unit}"
    console.print(f"  metric     {escape(metric.name)}: {metric.value:.6g}{unit}{known}{loss}, on all {what}")
    if metric.baseline_chance is not None:
        console.print(Text(f"  the {baseline} is at chance: {escape(metric.baseline_chance)}", "yellow"))


def _samples(accuracy: Accuracy) -> Text:
    """Return which samples were run, and whether they chose something."""
    if accuracy.held_back:
        return Text(f"{plural(accuracy.samples, 'held-back sample')} of the calibration data")
    if accuracy.validation is not None:
        return Text(f"{plural(accuracy.samples, 'sample')} of {escape(accuracy.validation)}")
    return Text(f"{plural(accuracy.samples, 'calibration sample')}: {accuracy.reason}", "yellow")


def _output_line(output: OutputAccuracy) -> Text:
    line = _verdict(output)
    if output.other_shapes:
        line.append(f"; another shape than the float model's in {plural(output.other_shapes, 'sample')}", "yellow")
    if output.float_nonfinite:
        line.append(f"; NaN or infinite in the float model: {plural(output.float_nonfinite, 'element')}", "yellow")
    return line


def _verdict(output: OutputAccuracy) -> Text:
    name = escape(output.name)
    if not output.finite:
        return Text(f"  output     {name}: NaN or infinity where the float model has none", "bold red")
    if output.exact:
        return Text(f"  output     {name}: equal")
    if output.sqnr_db is None and output.other_shapes:
        return Text(f"  output     {name}: not compared", "yellow")
    if output.sqnr_db is None:
        return Text(f"  output     {name}: the float output is zero everywhere, and this one is not", "yellow")
    error = output.standard_error_db
    doubt = f" ± {error:.1f}" if error is not None and error >= DOUBT_DB else ""
    line = f"  output     {name}: {output.sqnr_db:.1f} dB{doubt}"
    if output.sqnr_db < LOST_DB:
        return Text(f"{line}, LOST: the error is larger than the output itself", "bold red")
    return Text(f"{line}, POOR", "yellow") if output.sqnr_db < POOR_DB else Text(line)
