"""The doctor report for a terminal."""

from rich.console import Console
from rich.text import Text

from qdqtool.errors import escape
from qdqtool.jobs.doctor_report import Component, DoctorReport
from qdqtool.reports.terminal import FittedTable

_STYLES = {"ok": "green", "missing": "yellow", "broken": "red"}


def render(report: DoctorReport, console: Console) -> None:
    """Print the machine, its packages, which commands work, the targets and the problems."""
    console.print(Text(f"qdqtool {report.qdqtool}, Python {report.python}, {report.platform}", "bold"))
    for gpu in report.gpus:
        console.print(f"GPU {escape(gpu.name)}, compute capability {gpu.compute_capability}")
    if not report.gpus:
        console.print(f"no GPU: {report.gpu_note}; engines are built ahead of time and run elsewhere")
    console.print()
    headings, optional = ("package", "state", "version", "needed for", "note"), ("note", "needed for")
    console.print(FittedTable(*headings, rows=map(_row, report.components), optional=optional))
    console.print()
    for state in report.commands:
        mark = Text("works  ", "green") if state.works else Text("absent ", "yellow")
        console.print(Text.assemble(mark, state.command, f"  ({escape(state.reason)})" if state.reason else ""))
        if state.remark:
            console.print(f"       {state.remark}")
    console.print()
    for target in report.targets:
        console.print(Text.assemble("target ", (target.name, "bold"), f": {target.title} ({target.verified})"))
    for problem in report.problems:
        console.print(Text.assemble(("problem: ", "bold red"), escape(problem)))


def _row(part: Component) -> tuple[str | Text, ...]:
    state = Text(part.state, _STYLES[part.state])
    return part.name, state, part.version or "", ", ".join(part.needed_for), escape(part.note)
