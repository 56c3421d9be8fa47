"""The reports of `convert-ranges` and `merge` for a terminal."""

from rich.console import Console
from rich.text import Text

from qdqtool.errors import escape, plural
from qdqtool.jobs.convert_ranges import ConvertReport
from qdqtool.jobs.merge import MergeReport
from qdqtool.reports.terminal import print_written

MOST = 10
"""Largest number of tensors without a range that are printed one by one."""


def render_converted(report: ConvertReport, console: Console) -> None:
    """Print the ranges that were read, and the written file."""
    method = f", thresholds by {escape(report.method)}" if report.method else ""
    count = plural(report.tensors, "tensor")
    console.print(f"ranges of {count} from {escape(report.source)} ({report.read_as}{method})")
    for name in report.unseen[:MOST]:
        console.print(f"left out {escape(name)}: it has no range", style="yellow")
    if len(report.unseen) > MOST:
        console.print(f"left out {plural(len(report.unseen) - MOST, 'more tensor')}; JSON lists all", style="yellow")
    for note in report.notes:
        console.print(f"note     {escape(note)}")
    console.print(Text.assemble(f"{report.written_as} written to ", (escape(report.output), "bold")))


def render_merged(report: MergeReport, console: Console) -> None:
    """Print the shards that were merged, and the written file."""
    what = f"ranges of {plural(report.tensors, 'tensor')}"
    how = f"calibrated with {escape(report.method)} over {plural(report.samples, 'sample')}"
    console.print(Text.assemble((what, "bold"), f" from {plural(len(report.shards), 'shard')}, {how}"))
    if report.unseen:
        console.print(f"UNSEEN   {plural(report.unseen, 'tensor')} took no value in any shard", style="yellow")
    print_written(report.output, console)
