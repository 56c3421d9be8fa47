"""The reports of `insert` and `quantize --list-matches` for a terminal."""

from rich.console import Console
from rich.text import Text

from qdqtool.errors import escape, plural
from qdqtool.jobs.insert import InsertReport
from qdqtool.jobs.matches import MatchesReport
from qdqtool.quantization.planning.placement import PatternMatch
from qdqtool.reports.blocks import scoped
from qdqtool.reports.terminal import limit, print_rest
from qdqtool.reports.text._shared import print_counts, print_files, print_given, print_opset, print_pairs, print_skipped

SHOWN = 10


def render(report: InsertReport, console: Console) -> None:
    """Print the quantized tensors, the output with its size, warnings and notes."""
    print_counts(report.quantized, report.model, console)
    print_files(report.output, report.external_data, report.sizes, console)
    _print_warnings(report, console)
    if report.given is not None:
        print_given(report.given, console)
    print_opset(report.opset_before, report.opset_after, console)
    if report.verified:
        console.print(f"verified: {report.verified}")
    for found in report.refused_by:
        alternative = f"; nearest: {found.alternative}" if found.alternative else ""
        tensor = escape(scoped(found.tensor, found.graph))
        console.print(f"note: {found.target} {found.reason} (tensor {tensor}){alternative}", style="dim")
    print_skipped(report.skipped, console)
    print_pairs(report.quantized, console)


def _print_warnings(report: InsertReport, console: Console) -> None:
    for finding in report.findings[: limit(console, SHOWN)]:
        where = f" {escape(finding.node)}:" if finding.node else ""
        console.print(Text.assemble((f"warning {finding.code}", "yellow"), f"{where} {escape(finding.message)}"))
    print_rest(len(report.findings), SHOWN, console)


def render_matches(report: MatchesReport, console: Console) -> None:
    """Print the matches of each pattern, then the nodes that would and would not be quantized."""
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
        return "none of them is quantizable: the pattern has no effect"
    return "all quantizable" if match.quantizable == len(match.nodes) else f"{match.quantizable} of them quantizable"
