"""The normalize report for a terminal."""

import shlex

from rich.console import Console
from rich.text import Text

from qdqtool.errors import plural
from qdqtool.linting.repair.report import NormalizeReport
from qdqtool.reports.terminal import escape
from qdqtool.reports.text._repaired import print_repaired


def render(report: NormalizeReport, console: Console) -> None:
    """Print what was rewritten, what that did to the outputs, and where the output is."""
    count = plural(len(report.repaired.changes), "form")
    what = f"{count} rewritten" if report.repaired.changes else "nothing to rewrite"
    console.print(Text.assemble((what, "bold"), f" in {escape(report.model)}"))
    print_repaired(report.repaired, console)
    console.print(Text.assemble("wrote ", (escape(report.output), "bold")))
    if report.external_data:
        console.print(Text.assemble("weights in ", (escape(report.external_data), "bold")))
    if report.existing is not None:
        source = escape(shlex.quote(report.output))
        command = f"qdqtool quantize {source} --existing {report.existing} --calib-data DATA -o OUT.onnx"
        console.print(f"data that was quantized at run time is float now; `{command}` gives it static pairs")
