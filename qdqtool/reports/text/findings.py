"""Print the reports of `validate` on a terminal: findings, counts of findings, and the settings in use."""

import json
import shlex
from dataclasses import replace
from typing import Any

from rich.console import Console
from rich.text import Text

from qdqtool.errors import escape, plural
from qdqtool.linting import rules
from qdqtool.linting.findings import Finding, Severity
from qdqtool.linting.report import REPEATED, ModelReport, Statistics, TargetReport, ValidateReport
from qdqtool.linting.settings import Settings
from qdqtool.models.targets import capability_name
from qdqtool.reports.finding_words import counts, diagnosis, place
from qdqtool.reports.terminal import FittedTable, limit, print_rest

STYLES: dict[Severity, str] = {"error": "bold red", "warning": "bold yellow", "info": "bold blue"}

EXAMPLES = 2
"""Of more than :data:`REPEATED` findings of one rule for a target, only this number is printed; the rest is counted."""


def render(report: ValidateReport, console: Console, *, show_context: bool = False, names_fixes: bool = True) -> None:
    """Print every model with its findings, then a summary in one line.

    Args:
        report: The findings.
        console: Where to print.
        show_context: Whether to print the neighbors of each node in the graph.
        names_fixes: Whether to end with the options that apply fixes; false if fixes were already tried.
    """
    for model in report.models:
        _model(model, console, show_context=show_context, is_fixed=not names_fixes)
    good = not report.summary.errors and not report.unreadable
    console.print(Text(counts(report), "bold green" if good else "bold red"))
    lowered = any(target.lowered for model in report.models for target in model.targets)
    hidden = report.summary.ignored or report.summary.suppressed or lowered
    if report.settings is not None and hidden:
        console.print(f"settings: {escape(report.settings)}")
    if names_fixes and any(finding.fixable for finding in report.findings):
        console.print(_fix_hint(report))


def _model(model: ModelReport, console: Console, *, show_context: bool, is_fixed: bool) -> None:
    if model.error is not None:
        console.print(Text.assemble((escape(model.path), "bold"), ": ", ("unreadable", "bold red")))
        console.print(f"  {escape(model.error)}")
        console.print()
    for names, target in _alike(model):
        heading = f" for {', '.join(names)}: "
        _target(heading, model, target, console, show_context=show_context, is_fixed=is_fixed)


def _alike(model: ModelReport) -> list[tuple[list[str], TargetReport]]:
    """Return the reports of a model; reports that differ only in the target are grouped."""
    alike: dict[TargetReport, list[TargetReport]] = {}
    for target in model.targets:
        ignored = tuple(each for each in target.ignored if each.count)
        bare = replace(target, target="", checked=(), ignored=ignored, parser=None, parser_note="", parser_messages=())
        bare = replace(bare, not_selected=0)
        alike.setdefault(bare, []).append(target)
    # One of them may have a parser; the line about the group says whether the parser was run.
    return [
        ([each.target for each in group], next((each for each in group if each.parser is not None), group[0]))
        for group in alike.values()
    ]


def _target(
    names: str, model: ModelReport, target: TargetReport, console: Console, *, show_context: bool, is_fixed: bool
) -> None:
    verdict = ("fail", "bold red") if target.verdict == "fail" else ("pass", "bold green")
    console.print(Text.assemble((escape(model.path), "bold"), names, verdict, _left_out(model, target)))
    for line in diagnosis(model, target, is_fixed=is_fixed):
        console.print(f"  {line}", soft_wrap="`" in line)
    by_rule: dict[tuple[Severity, str], list[Finding]] = {}
    for finding in target.findings:
        by_rule.setdefault((finding.severity, finding.code), []).append(finding)
    for findings in by_rule.values():
        _rule(findings, model.path, console, show_context=show_context)
    if target.findings:
        console.print()


def _left_out(model: ModelReport, target: TargetReport) -> str:
    """Return notes on the verdict: no Q/DQ nodes, the number of hidden findings, whether the parser was asked."""
    ignored = [each for each in target.ignored if each.count]
    omitted = (
        (target.suppressed, "suppressed"),
        (target.known, "in the baseline"),
        (target.lowered, "errors lowered by the settings"),
        (target.not_selected, "rules not selected"),
        (sum(each.count for each in ignored), f"ignored: {', '.join(escape(each.code) for each in ignored)}"),
    )
    words = ["it has no Q/DQ nodes"] if model.qdq_nodes == 0 else []
    words += [f"plugins: {', '.join(map(escape, model.plugins))}"] if model.plugins else []
    words += [f"{count} {why}" for count, why in omitted if count]
    if target.parser == "asked":
        words.append("parser asked")
    elif target.parser is not None and target.parser_note:
        # Without a note, the user disabled the parser.
        words.append(f"parser {target.parser}: {escape(target.parser_note)}")
    return f" ({', '.join(words)})" if words else ""


def _rule(findings: list[Finding], path: str, console: Console, *, show_context: bool) -> None:
    most = REPEATED if len(findings) <= REPEATED else EXAMPLES
    for finding in findings[: limit(console, most)]:
        console.print(_line(finding))
        if show_context and finding.context:
            console.print(Text(f"    graph: {escape(finding.context)}", "dim"))
    print_rest(len(findings), most, console, what=f"more of {findings[0].code}")
    manual = "" if any(finding.fixable for finding in findings) else " by hand"
    console.print(Text(f"    fix{manual}: {escape(_remedy(findings[0].code, path))}", "dim"))


def _remedy(code: str, path: str) -> str:
    """Return the remedy of a rule; its command has the file name, so that it can be pasted."""
    made = path.removesuffix(".onnx") + ".qdq.onnx"
    return rules.get(code).remedy.replace("MODEL -o OUT", f"{shlex.quote(path)} -o {shlex.quote(made)}")


def _line(finding: Finding) -> Text:
    line = Text("  ")
    line.append(finding.severity, STYLES[finding.severity])
    line.append(f" {finding.code} ", "bold")
    line.append(f"[{finding.effect}] ")
    if finding.node is not None:
        line.append(place(finding), "cyan")
        named = not finding.node.startswith(f"{finding.op_type} -> ")
        line.append(f" ({escape(finding.op_type or '')}): " if named else ": ")
    line.append(escape(finding.message))
    if finding.expected is not None:
        line.append(f"; expected {escape(finding.expected)}")
    return line


def _fix_hint(report: ValidateReport) -> str:
    """Return how many findings have a safe fix, an unsafe fix, or none, with the options that apply these fixes."""
    place = "-o FILE" if len(report.models) == 1 else "--in-place"
    # One edit mends what several targets report.
    found = {
        (model.path, each.code, each.graph, each.node, each.message): each
        for model in report.models
        for target in model.targets
        for each in target.findings
    }.values()
    safe = sum(finding.safe_fix for finding in found)
    unsafe = sum(finding.fixable for finding in found) - safe
    ways = [f"{safe} by safe edits (--fix {place})"] if safe else []
    ways += [f"{unsafe} by edits that change numbers (--fix --unsafe-fixes {place})"] if unsafe else []
    ways += [f"{none} by hand"] if (none := len(found) - safe - unsafe) else []
    return f"to fix: {', '.join(ways)}; --diff shows the edits"


def render_statistics(report: Statistics, console: Console) -> None:
    """Print a line for each rule, then the sum."""
    headings, optional = ("findings", "code", "name", "severity", "fixable"), ("fixable", "severity")
    rows = ((str(row.count), row.code, row.name, row.severity, str(row.fixable or "")) for row in report.rules)
    if report.rules:
        console.print(FittedTable(*headings, rows=rows, optional=optional))
    summary = report.summary
    console.print(
        f"{plural(summary.errors, 'error')}, {plural(summary.warnings, 'warning')}, {plural(summary.infos, 'info')},"
        f" {summary.suppressed} suppressed, {summary.known} in the baseline, {summary.ignored} ignored"
    )


def render_settings(report: Settings, console: Console) -> None:
    """Print the settings as in a settings file, and the file from which they come."""
    policy = report.policy
    source = escape(str(report.source)) if report.source is not None else "no file; options and defaults"
    console.print(f"# {source}")
    rows: dict[str, Any] = {
        "targets": policy.targets,
        "sm": [capability_name(number) for number in policy.compute_capabilities],
        "select": policy.select if policy.select is not None else ["ALL"],
        "extend-select": policy.extend_select,
        "ignore": policy.ignore,
        "fail-on": report.fail_on,
        "baseline": str(report.baseline) if report.baseline is not None else "",
    }
    # The default (run the parser if it is installed and the model is not large) cannot be written in a file.
    if policy.plugin_ops:
        rows["plugin-ops"] = [str(each) for each in policy.plugin_ops]
    if policy.parser is not None:
        rows["parser"] = policy.parser
    for key, value in rows.items():
        console.print(f"{key} = {json.dumps(value)}")
    tables = (policy.severity, policy.per_model_ignores, policy.per_node_ignores)
    for name, table in zip(("severity", "per-model-ignores", "per-node-ignores"), tables, strict=True):
        if table:
            console.print(f"[{name}]")
        for key, value in table.items():
            console.print(f"{json.dumps(key)} = {json.dumps(value)}")
