"""What fixing or normalizing did to one model, for a terminal."""

from rich.console import Console
from rich.text import Text

from qdqtool.repair.report import Change, OutputChange, RefusedFix, Repaired
from qdqtool.report.terminal import escape, plural

_STYLES = {"safe": "green", "unsafe": "bold yellow"}


def print_repaired(repaired: Repaired, console: Console) -> None:
    """Print every change with its label and proof, every refusal with its reason, and what the outputs became."""
    for change in repaired.changes:
        console.print(_change(change))
    if repaired.removed:
        names = ", ".join(escape(name) for name in repaired.removed)
        console.print(Text(f"  taken out, since nothing reads it any more: {names}", "dim"))
    for refusal in repaired.refused:
        console.print(_refusal(refusal))
    if repaired.unproven and (repaired.changes or repaired.refused):
        console.print(f"  nothing is proven of the model as it was: {escape(repaired.unproven)}")
    moved = [output for output in repaired.outputs if not output.exact]
    for output in moved:
        console.print(_output(output))
    if repaired.outputs and not moved:
        outputs = plural(len(repaired.outputs), "output")
        console.print(f"  {outputs}, each bit-equal to before, on {escape(repaired.feeds)}")
    elif moved:
        console.print(f"  on {escape(repaired.feeds)}; noise is measured against the model without Q/DQ")


def _change(change: Change) -> Text:
    line = Text.assemble("  ", (change.label, _STYLES[change.label]), (f" {change.code} ", "bold"))
    return _described(line, change.node, change.graph, change.description).append(f" ({escape(change.proof)})", "dim")


def _refusal(refusal: RefusedFix) -> Text:
    line = Text.assemble("  ", ("not applied", "yellow"), (f" {refusal.code} ", "bold"))
    text = _described(line, refusal.node, refusal.graph, refusal.description)
    return text.append(f": {escape(refusal.reason)}")


def _described(line: Text, node: str | None, graph: str, description: str) -> Text:
    if node is not None:
        where = f"{graph}/{node}" if graph else node
        line.append(escape(where), "cyan").append(": ")
    return line.append(escape(description))


def _output(output: OutputChange) -> Text:
    if output.equal:
        return Text(f"  output {escape(output.name)}: equal to before, but for the sign of zeros")
    steps = f", {output.max_steps:.6g} steps" if output.max_steps is not None else ""
    line = Text(f"  output {escape(output.name)}: changed by at most {output.max_abs:.6g}{steps}")
    line.append(f"; SQNR against before {_db(output.sqnr_db)}")
    return line.append(f"; to its own noise: before {_db(output.before_db)}, after {_db(output.after_db)}")


def _db(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.1f} dB"
