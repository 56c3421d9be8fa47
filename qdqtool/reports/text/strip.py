"""The strip report for a terminal."""

from collections import Counter

from rich.console import Console
from rich.text import Text

from qdqtool.errors import plural
from qdqtool.jobs.strip import StripReport
from qdqtool.models.transforms.strip import RestoredNode
from qdqtool.reports.terminal import escape, sizes_line


def render(report: StripReport, console: Console) -> None:
    """Print what was taken out, what stays and why, how large the files are and where the output is."""
    pairs = sum(done.kind == "pair" for done in report.removed)
    weights = len(report.removed) - pairs
    done = [f"{plural(pairs, 'pair')} bypassed"] if pairs else []
    done += [f"{plural(weights, 'weight')} made float again"] if weights else []
    what = " and ".join(done) or "no pair or weight to take out"
    console.print(Text.assemble((what, "bold"), f" in {escape(report.model)}"))
    for operator, count in Counter(map(_operator, report.restored)).items():
        times = "" if count == 1 else f" {count} times"
        console.print(Text.assemble("  ", (f"put back {operator}{times}", "green"), ": the range of a Q did its work"))
    for rest in report.kept:
        scope = f" in {escape(rest.graph)}" if rest.graph else ""
        console.print(Text.assemble("  ", ("kept ", "yellow"), f"{escape(rest.node)}{scope}: {escape(rest.reason)}"))
    for warning in report.warnings:
        console.print(Text.assemble("  ", ("warning ", "yellow"), escape(warning)))
    console.print(sizes_line(report.sizes.before, report.sizes.after))
    console.print(Text.assemble("wrote ", (escape(report.output), "bold")))
    if report.external_data:
        console.print(Text.assemble("weights in ", (escape(report.external_data), "bold")))


def _operator(made: RestoredNode) -> str:
    if made.op_type == "Relu":
        return "Relu"
    bounds = [f"{name} {bound:g}" for name, bound in (("min", made.low), ("max", made.high)) if bound is not None]
    return f"{escape(made.op_type)} ({', '.join(bounds)})"
