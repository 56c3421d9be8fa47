"""The reduce report for a terminal."""

from rich.console import Console
from rich.text import Text

from qdqtool.errors import escape, plural
from qdqtool.jobs.reduction.report import ReduceReport
from qdqtool.reports.terminal import FittedTable, print_written, sizes_line


def render(report: ReduceReport, console: Console) -> None:
    """Print the size of the reduced model, the number of runs, the failure, and the written files."""
    before, after = report.sizes_before, report.sizes_after
    left = f"{plural(after.nodes, 'node')} of {before.nodes} left"
    console.print(Text.assemble((left, "bold"), f" of {escape(report.model)}, in {plural(report.runs, 'run')}"))
    operators = (name if count == 1 else f"{name} ({count})" for name, count in report.operators.items())
    console.print(f"operators: {escape(', '.join(operators))}")
    console.print(f"fails with {escape(str(report.after))}")
    if report.before.message != report.after.message:
        console.print(f"the whole model fails with {escape(str(report.before))}")
    if not report.stable:
        console.print("the failure is NOT STABLE: two runs on the same model failed differently", style="yellow")
    if report.short_timeout:
        console.print(
            "the time limit is SHORT: a run that passed took more than half of it; others may have been stopped",
            style="yellow",
        )
    if not report.complete:
        console.print("the search ended early: a smaller model may fail in the same way", style="yellow")
    elif (before.nodes, before.bytes) == (after.nodes, after.bytes):
        console.print("no step makes the model smaller")
    rows = ((step.name, str(step.nodes), str(step.runs)) for step in report.steps)
    console.print(FittedTable("step", "nodes left", "runs", rows=rows))
    console.print(sizes_line(before.bytes, after.bytes))
    print_written(report.output, console, weights=report.external_data)
    if report.baseline:
        console.print(Text.assemble("baseline in ", (escape(report.baseline), "bold")))
    if report.report:
        console.print(Text.assemble("report in ", (escape(report.report), "bold")))
    console.print(f"to reproduce: {escape(report.command)}", soft_wrap=True)
