"""The merge report for a terminal."""

from rich.console import Console
from rich.text import Text

from qdqtool.jobs.merge import MergeReport
from qdqtool.report.terminal import escape, plural


def render(report: MergeReport, console: Console) -> None:
    """Print what was joined, and where it is."""
    what = f"ranges of {plural(report.tensors, 'tensor')}"
    shards, samples = plural(len(report.shards), "shard"), plural(report.samples, "sample")
    console.print(Text.assemble((what, "bold"), f", {escape(report.method)} over {samples}, from {shards}"))
    if report.unseen:
        console.print(f"UNSEEN   {plural(report.unseen, 'tensor')} took no value in any shard", style="yellow")
    console.print(Text.assemble("wrote ", (escape(report.output), "bold")))
