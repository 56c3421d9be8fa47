"""The report of a refused build for a terminal."""

from rich.console import Console
from rich.text import Text

from qdqtool.engines.build.report import RefusedReport
from qdqtool.engines.tensorrt.builder import Refusal
from qdqtool.reports.terminal import escape

_STAGES = {"validate": "validate gate", "parse": "parser", "build": "builder", "locked": "locked manifest"}


def render(report: RefusedReport, console: Console) -> None:
    """Print every reason when there are several; a single one is the error message itself."""
    if len(report.refusals) < 2:
        return
    console.print(Text.assemble((escape(report.model), "bold"), f": the {_STAGES[report.stage]} refuses"))
    for refusal in report.refusals:
        console.print(_line(refusal))


def _line(refusal: Refusal) -> Text:
    where = f"{escape(refusal.node)} ({escape(refusal.op_type or '?')}): " if refusal.node else ""
    hint = f"; {escape(refusal.hint)}" if refusal.hint else ""
    code = f"{refusal.code} " if refusal.code else ""
    return Text.assemble("  ", (code, "red"), (where, "bold"), escape(refusal.reason), (hint, "dim"))
