"""The report of ``verify-engine`` for a terminal."""

from rich.console import Console
from rich.text import Text

from qdqtool.errors import plural
from qdqtool.jobs.verify_engine import VerifyReport
from qdqtool.reports.terminal import escape

_WORDS = {"passed": ("passed", "green"), "failed": ("FAILED", "bold red"), "not-possible": ("not possible", "yellow")}


def render(report: VerifyReport, console: Console) -> None:
    """Print every check with what was found, and how many passed, failed or were not possible."""
    console.print(Text(escape(report.engine), "bold"))
    width = max(len(check.name) for check in report.checks)
    for check in report.checks:
        word, style = _WORDS[check.status]
        console.print(Text.assemble(f"  {escape(check.name):<{width}}  ", (word, style), f": {escape(check.detail)}"))
    console.print()
    console.print(_verdict(report))


def _verdict(report: VerifyReport) -> Text:
    names = {status: [check.name for check in report.checks if check.status == status] for status in _WORDS}
    parts = [f"{plural(len(names['passed']), 'check')} passed"]
    if names["not-possible"]:
        parts.append(f"{len(names['not-possible'])} not possible: {', '.join(names['not-possible'])}")
    rest = f"{'; '.join(parts)}. The engine was not run."
    if report.passed:
        return Text(rest)
    return Text.assemble((f"FAILED: {', '.join(names['failed'])}", "bold red"), f"; {rest}")
