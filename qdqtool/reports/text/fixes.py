"""The report of ``validate --fix`` for a terminal: what was changed, then what is left."""

from rich.console import Console
from rich.text import Text

from qdqtool.errors import plural
from qdqtool.linting.repair.report import FixedModel, FixReport
from qdqtool.linting.report import ModelReport, ValidateReport
from qdqtool.reports.terminal import escape
from qdqtool.reports.text import findings
from qdqtool.reports.text._repaired import print_repaired


def render(report: FixReport, console: Console) -> None:
    """Print the changes of every model, then the findings that are left."""
    for model in report.models:
        _model(model, console)
    left = tuple(ModelReport(model.path, model.targets, model.error) for model in report.models)
    findings.render(ValidateReport(left, report.summary), console, names_fixes=False)


def _model(model: FixedModel, console: Console) -> None:
    if model.repaired is None:
        return
    changes = model.repaired.changes
    safe = sum(change.label == "safe" for change in changes)
    verb = "would be made" if model.diff is not None else "made"
    words = f"{plural(len(changes), 'change')} {verb} ({safe} safe, {len(changes) - safe} unsafe)"
    console.print(Text.assemble((escape(model.path), "bold"), f": {words}"))
    print_repaired(model.repaired, console)
    for line in (model.diff or "").splitlines():
        console.print(_diff_line(line))
    if model.output:
        console.print(Text.assemble("wrote ", (escape(model.output), "bold")))
    if model.external_data:
        console.print(Text.assemble("weights in ", (escape(model.external_data), "bold")))
    console.print()


def _diff_line(line: str) -> Text:
    style = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
    return Text(escape(line), style)
