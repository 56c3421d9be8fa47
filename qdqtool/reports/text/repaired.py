"""Print the reports of fixing, normalizing and stripping on a terminal."""

import re
import shlex
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from rich.console import Console
from rich.text import Text

from qdqtool.errors import escape, plural
from qdqtool.jobs.strip import StripReport
from qdqtool.linting.repair.report import (
    Change,
    FixedModel,
    FixReport,
    NormalizeReport,
    OutputChange,
    RefusedFix,
    Repaired,
)
from qdqtool.linting.report import ModelReport, ValidateReport
from qdqtool.models.transforms.strip import RestoredNode
from qdqtool.reports.blocks import scoped
from qdqtool.reports.terminal import limit, lists_all, placed, print_written, quantized_tensors, sizes_line
from qdqtool.reports.text import findings


def render_fixes(report: FixReport, console: Console) -> None:
    """Print the changes of every model, then the remaining findings."""
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
    if not changes:
        words = "nothing was changed" + (": the output is a copy of the model" if model.output else "")
    console.print(Text.assemble((escape(model.path), "bold"), f": {words}"))
    print_repaired(model.repaired, console)
    for line in (model.diff or "").splitlines():
        console.print(Text(escape(line), {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")))
    if model.output:
        print_written(model.output, console, weights=model.external_data)
    console.print()


def render_normalized(report: NormalizeReport, console: Console) -> None:
    """Print the rewritten forms, their effect on the outputs, and the written file."""
    count = plural(len(report.repaired.changes), "form")
    what = f"{count} rewritten" if report.repaired.changes else "nothing to rewrite"
    console.print(Text.assemble((what, "bold"), f" in {escape(report.model)}"))
    print_repaired(report.repaired, console)
    print_written(report.output, console, weights=report.external_data)
    if report.existing is not None:
        source = escape(shlex.quote(report.output))
        command = f"qdqtool quantize {source} --existing {report.existing} --calib-data DATA -o OUT.onnx"
        console.print(f"data that was quantized at run time is float now; `{command}` gives it static pairs")


def render_stripped(report: StripReport, console: Console) -> None:
    """Print what was removed, what was kept and why, the sizes, and the written file."""
    pairs = sum(done.kind == "pair" for done in report.removed)
    weights = len(report.removed) - pairs
    what = (
        f"{quantized_tensors(pairs, weights)} made float again" if report.removed else "no quantized tensor to remove"
    )
    console.print(Text.assemble((what, "bold"), f" in {escape(report.model)}"))
    for operator, count in Counter(map(_restored, report.restored)).items():
        times = "" if count == 1 else f" {count} times"
        console.print(Text.assemble("  ", (f"put back {operator}{times}", "green"), ": a Q clipped the same values"))
    for rest in report.kept:
        console.print(
            Text.assemble("  ", ("kept ", "yellow"), f"{placed(rest.node, rest.graph)}: {escape(rest.reason)}")
        )
    for warning in report.warnings:
        console.print(Text.assemble("  ", ("warning ", "yellow"), escape(warning)))
    console.print(sizes_line(report.sizes.before, report.sizes.after))
    print_written(report.output, console, weights=report.external_data)


def _restored(made: RestoredNode) -> str:
    if made.op_type == "Relu":
        return "Relu"
    bounds = [f"{name} {bound:g}" for name, bound in (("min", made.low), ("max", made.high)) if bound is not None]
    return f"{escape(made.op_type)} ({', '.join(bounds)})"


SHOWN = 4
"""Largest number of nodes that are listed for one kind of change."""

SHOWN_REMOVED = 12
"""How many removed constants and nodes are named."""

Each = TypeVar("Each", Change, RefusedFix)

_QUOTED = re.compile("'[^']*'")
_STYLES = {"safe": "green", "unsafe": "bold yellow"}


def print_repaired(repaired: Repaired, console: Console) -> None:
    """Print the changes with label and proof, the refusals with their reason, and the changes of the outputs."""
    for changes in _grouped(repaired.changes, console):
        console.print(_change(changes))
    if repaired.removed:
        console.print(_removed(repaired.removed, console))
    for refusals in _grouped(repaired.refused, console):
        console.print(_refusal(refusals))
    if repaired.unproven and (repaired.changes or repaired.refused):
        console.print(f"  nothing is proven of the model as it was: {escape(repaired.unproven)}")
    moved = [output for output in repaired.outputs if not output.exact]
    for output in moved:
        console.print(_output(output))
    if repaired.outputs and not moved:
        outputs = plural(len(repaired.outputs), "output")
        console.print(f"  {outputs}, all bit-equal to before, on {escape(repaired.feeds)}")
    elif moved:
        noise = "; noise is measured against the model without Q/DQ" if any(map(_has_noise, moved)) else ""
        console.print(f"  on {escape(repaired.feeds)}{noise}")


def _grouped(items: Sequence[Each], console: Console) -> Iterator[list[Each]]:
    """Yield groups of items that differ only in node and names; with ``--verbose``, a group has one item."""
    groups: dict[Hashable, list[Each]] = {}
    for index, item in enumerate(items):
        # The numbers of one tensor follow a colon.
        key = replace(item, node=None, graph="", description=_pattern(item.description).partition(": ")[0])
        groups.setdefault(index if lists_all(console) else key, []).append(item)
    yield from groups.values()


def _pattern(description: str) -> str:
    return _QUOTED.sub("'…'", description)


def _removed(removed: Sequence[str], console: Console) -> Text:
    shown = limit(console, SHOWN_REMOVED)
    names = ", ".join(map(escape, removed[:shown]))
    rest = len(removed[shown:]) if shown is not None else 0
    more = f", and {rest} more (-v lists all)" if rest else ""
    return Text(f"  removed, because no node reads it any more: {names}{more}", "dim")


def _change(group: Sequence[Change]) -> Text:
    first = group[0]
    line = Text.assemble("  ", _count(group), (first.label, _STYLES[first.label]), (f" {first.code} ", "bold"))
    return _described(line, group).append(f" ({escape(first.proof)})", "dim")


def _refusal(group: Sequence[RefusedFix]) -> Text:
    first = group[0]
    line = Text.assemble("  ", _count(group), ("not applied", "yellow"), (f" {first.code} ", "bold"))
    return _described(line, group).append(f": {escape(first.reason)}")


def _count(group: Sequence[Each]) -> str:
    return f"{len(group)} × " if len(group) > 1 else ""  # noqa: RUF001 -- the sign that people read


def _described(line: Text, group: Sequence[Each]) -> Text:
    places = dict.fromkeys(scoped(each.node, each.graph) for each in group if each.node)
    if places:
        more = ", …" if len(places) > SHOWN else ""
        line.append(", ".join(map(escape, list(places)[:SHOWN])) + more, "cyan").append(": ")
    described = {group[0].description} if len(group) == 1 else {_pattern(each.description) for each in group}
    alike = described.pop() if len(described) == 1 else described.pop().partition(": ")[0]
    return line.append(escape(alike))


def _output(output: OutputChange) -> Text:
    if output.equal:
        return Text(f"  output {escape(output.name)}: equal to before, except for the sign of zeros")
    steps = f", {output.max_steps:.6g} steps" if output.max_steps is not None else ""
    line = Text(f"  output {escape(output.name)}: changed by at most {output.max_abs:.6g}{steps}")
    if output.other_shapes:
        line.append(f"; the shape changed in {plural(output.other_shapes, 'sample')}")
    line.append(f"; SQNR against before {_db(output.sqnr_db)}")
    if not _has_noise(output):
        return line
    return line.append(f"; SQNR to its float model: before {_db(output.before_db)}, after {_db(output.after_db)}")


def _has_noise(output: OutputChange) -> bool:
    """Return whether the model without Q/DQ differs from the model before the change."""
    return not output.equal and output.before_db is not None


def _db(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.1f} dB"
