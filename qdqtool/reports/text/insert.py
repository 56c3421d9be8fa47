"""The insert report for a terminal."""

from rich.console import Console
from rich.text import Text

from qdqtool.jobs.insert import InsertReport
from qdqtool.reports.terminal import escape, limit, print_rest
from qdqtool.reports.text._calibration import print_given, print_skipped
from qdqtool.reports.text._pairs import print_counts, print_files, print_opset, print_pairs

SHOWN = 10


def render(report: InsertReport, console: Console) -> None:
    """Print what was quantized, where the output is and how large, and what else there is to know."""
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
        tensor = f"{found.graph}/{found.tensor}" if found.graph else found.tensor
        console.print(f"note: {found.target} {found.reason} (tensor {escape(tensor)}){alternative}", style="dim")
    print_skipped(report.skipped, console)
    print_pairs(report.quantized, console)


def _print_warnings(report: InsertReport, console: Console) -> None:
    for finding in report.findings[: limit(console, SHOWN)]:
        where = f" {escape(finding.node)}:" if finding.node else ""
        console.print(Text.assemble((f"warning {finding.code}", "yellow"), f"{where} {escape(finding.message)}"))
    print_rest(len(report.findings), SHOWN, console)
