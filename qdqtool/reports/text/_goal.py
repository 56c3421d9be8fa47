"""The layers that leave the quantized format for an accuracy that was asked for, for a terminal."""

import math

from rich.console import Console

from qdqtool.accuracy.search.goal_report import GoalReport, MetricGoal
from qdqtool.errors import plural
from qdqtool.reports.terminal import escape
from qdqtool.reports.text._rest import limit, print_rest

SHOWN = 8


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
        _print_metric(goal.metric, console)
    levels = [*((layer, "float") for layer in goal.left), *((layer, goal.fallback) for layer in goal.finer)]
    for layer, level in sorted(levels, key=lambda each: -each[0].share)[: limit(console, SHOWN)]:
        more = f" (+{len(layer.nodes) - 1})" if len(layer.nodes) > 1 else ""
        where = "" if goal.fallback is None else f"{level}, "
        console.print(f"  {escape(layer.op_type)} {escape(layer.node)}{more}: {where}{layer.share:.1%}")
    print_rest(len(levels), SHOWN, console)


def _print_metric(metric: MetricGoal, console: Console) -> None:
    what = "samples" if metric.output is None else "predictions"
    console.print(
        f"  {escape(metric.name)} loses {_loss(metric.choosing_loss, metric)} on the {metric.choosing_predictions} "
        f"{what} that chose them, {_loss(metric.loss, metric)} on the {metric.predictions} that measure; "
        f"{plural(metric.models, 'model')} measured"
    )


def _loss(loss: float, metric: MetricGoal) -> str:
    return f"{loss:.4g} {metric.loss_unit}".rstrip()
