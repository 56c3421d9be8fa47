"""The insert report for a terminal."""

from rich.console import Console
from rich.text import Text

from qdqtool.jobs.insert import InsertReport
from qdqtool.report.terminal import escape
from qdqtool.report.text._calibration import print_given, print_skipped
from qdqtool.report.text._pairs import print_files, print_opset, print_pairs, print_rest

SHOWN = 10


def render(report: InsertReport, console: Console) -> None:
    """Print what was quantized, how large the files are and where the output is."""
    print_pairs(report.quantized, report.model, console)
    print_skipped(report.skipped, console)
    if report.given is not None:
        print_given(report.given, console)
    print_opset(report.opset_before, report.opset_after, console)
    if report.verified:
        console.print(f"verified: {report.verified}")
    for found in report.refused_by:
        alternative = f"; nearest: {found.alternative}" if found.alternative else ""
        tensor = f"{found.graph}/{found.tensor}" if found.graph else found.tensor
        console.print(f"note: {found.target} {found.reason} (tensor {escape(tensor)}){alternative}", style="dim")
    for finding in report.findings[:SHOWN]:
        where = f" {escape(finding.node)}:" if finding.node else ""
        console.print(Text.assemble((f"warning {finding.code}", "yellow"), f"{where} {escape(finding.message)}"))
    print_rest(len(report.findings), SHOWN, console)
    print_files(report.output, report.external_data, report.sizes, console)
