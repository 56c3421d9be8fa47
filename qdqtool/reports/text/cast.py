"""Print the report of a conversion to half precision on a terminal."""

from rich.console import Console

from qdqtool.errors import escape
from qdqtool.jobs.cast import CastReport
from qdqtool.reports.text._shared import print_files, print_high_precision, print_opset
from qdqtool.reports.text.quantize import print_accuracy


def render(report: CastReport, console: Console) -> None:
    """Print what computes in half precision, what does not and why, the accuracy, and the written file."""
    print_high_precision(report.high_precision, console)
    print_opset(report.opset_before, report.opset_after, console)
    has_pairs = report.before_db is not None
    print_accuracy(report.accuracy, console, "model without Q/DQ" if has_pairs else "model before")
    if has_pairs:
        console.print(f"  before     worst output: {report.before_db:.1f} dB")
    for change in report.interface:
        console.print(f"interface  {escape(str(change))}", style="yellow" if change.reason else "")
    print_files(report.output, report.external_data, report.sizes, console)
