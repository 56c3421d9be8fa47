"""The layers that stay in float for an accuracy that was asked for, for a terminal."""

import math

from rich.console import Console

from qdqtool.jobs.goal_report import GoalReport
from qdqtool.report.terminal import escape
from qdqtool.report.text._rest import limit, print_rest

SHOWN = 8


def print_goal(goal: GoalReport, console: Console) -> None:
    """Print how the goal was reached, and the layers in float, the one with the largest share of the cost first."""
    before = "keeps no noise" if goal.worst_without_db is None else f"keeps {goal.worst_without_db:.1f} dB"
    if goal.worst_without_db is not None and math.isinf(goal.worst_without_db):
        before = "is NaN or infinite somewhere"
    console.print(
        f"{len(goal.left)} of {goal.layers} layers left in float for {goal.min_sqnr_db:g} dB, {goal.float_share:.1%} "
        f"of the cost; with all quantized the worst output {before}",
        style="bold",
    )
    for layer in sorted(goal.left, key=lambda each: -each.share)[: limit(console, SHOWN)]:
        more = f" (+{len(layer.nodes) - 1})" if len(layer.nodes) > 1 else ""
        console.print(f"  {escape(layer.op_type)} {escape(layer.node)}{more}: {layer.share:.1%}")
    print_rest(len(goal.left), SHOWN, console)
