"""The merge report for a terminal."""

from rich.console import Console
from rich.text import Text

from qdqtool.errors import plural
from qdqtool.jobs.merge import MergeReport
from qdqtool.reports.terminal import escape


def render(report: MergeReport, console: Console) -> None:
    """Print what was joined, and where it is."""
    what = f"ranges of {plural(report.tensors, 'tensor')}"
    how = f"calibrated with {escape(report.method)} over {plural(report.samples, 'sample')}"
    console.print(Text.assemble((what, "bold"), f" from {plural(len(report.shards), 'shard')}, {how}"))
    if report.unseen:
        console.print(f"UNSEEN   {plural(report.unseen, 'tensor')} took no value in any shard", style="yellow")
    console.print(Text.assemble("wrote ", (escape(report.output), "bold")))
