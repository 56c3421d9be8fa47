"""What quantize would do, for a terminal."""

from rich.console import Console

from qdqtool.errors import plural
from qdqtool.jobs.matches import MatchesReport
from qdqtool.quantization.planning.placement import PatternMatch
from qdqtool.reports.terminal import escape
from qdqtool.reports.text._calibration import print_skipped


def render(report: MatchesReport, console: Console) -> None:
    """Print what each pattern matches, then every node with what would become of it."""
    for match in report.patterns:
        console.print(
            f"{match.option} '{escape(match.pattern)}' matches {plural(len(match.nodes), 'node')}, {_effect(match)}",
            style="bold",
        )
        for label in match.nodes:
            console.print(f"  {escape(label)}")
    console.print(
        f"{plural(len(report.quantized), 'node')} of {escape(report.model)} would be quantized for {report.target}",
        style="bold",
    )
    for node in report.quantized:
        scope = f" in {escape(node.graph)}" if node.graph else ""
        console.print(f"  {escape(node.node)} ({escape(node.op_type)}){scope}")
    print_skipped(report.skipped, console)


def _effect(match: PatternMatch) -> str:
    if not match.quantizable:
        return "none of them quantizable: it changes nothing"
    return "all quantizable" if match.quantizable == len(match.nodes) else f"{match.quantizable} of them quantizable"
