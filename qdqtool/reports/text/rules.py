"""The rules for a terminal: all of them, or one in full."""

from rich.console import Console
from rich.text import Text

from qdqtool.errors import escape, plural
from qdqtool.jobs.catalogue import Catalogue, RuleCard
from qdqtool.jobs.rule_examples import ExampleCard
from qdqtool.models import targets
from qdqtool.reports.terminal import FittedTable, print_unbroken
from qdqtool.reports.text.findings import STYLES


def render(report: Catalogue, console: Console) -> None:
    """Print a row for each rule; outside a terminal each row is one line, regardless of COLUMNS."""
    table = FittedTable("code", "name", "severity", "effect", "targets", "rule", optional=("targets", "effect", "name"))
    for card in report.rules:
        worst = card.impacts[0] if len({impact.severity for impact in card.impacts}) == 1 else None
        severities = worst.severity if worst else "/".join(dict.fromkeys(impact.severity for impact in card.impacts))
        effects = "/".join(dict.fromkeys(impact.effect for impact in card.impacts))
        named = ", ".join(impact.target for impact in card.impacts)
        table.add_row(card.code, card.name, severities, effects, named, card.summary)
    print_unbroken(table, console)
    console.print(f"{plural(len(report.rules), 'rule')}; qdqtool explain CODE shows one in full")
    console.print(f"targets: {targets.legal()}")


def render_rule(report: RuleCard, console: Console) -> None:
    """Print the rule, its reason, the affected targets, the fix, and its examples."""
    console.print(Text.assemble((f"{report.code} {report.name}", "bold"), f" (since {report.since})"))
    console.print(report.summary)
    console.print()
    for heading, text in (("Why", report.why), ("Bad", report.bad), ("Good", report.good), ("Fix", report.remedy)):
        console.print(Text.assemble((f"{heading}: ", "bold"), text))
    for fix in report.fixes:
        console.print(Text.assemble(("--fix", "bold"), f" ({fix.label}): {fix.summary}"))
    if not report.fixes:
        console.print(Text.assemble(("--fix", "bold"), ": no automatic fix"))
    console.print()
    for impact in report.impacts:
        console.print(
            Text.assemble(f"  {impact.target}: ", (impact.severity, STYLES[impact.severity]), f", {impact.effect}")
        )
    for heading, examples in (("reported", report.invalid), ("passed", report.valid)):
        for example in examples:
            _example(heading, example, console)


def _example(heading: str, example: ExampleCard, console: Console) -> None:
    where = f" (for {', '.join(example.targets)})" if example.targets else ""
    console.print()
    console.print(Text.assemble((heading, "bold red" if heading == "reported" else "bold green")), end="")
    console.print(f": {example.title}{where}")
    console.print(_indented(example.text))
    for finding in example.findings:
        line = Text("  says: ")
        line.append(finding.severity, STYLES[finding.severity])
        console.print(line.append(f" [{finding.effect}] {escape(finding.message)} ({', '.join(finding.targets)})"))
    if example.fixed is not None:
        console.print(f"  fixed ({example.fixed.label}: {escape(', '.join(example.fixed.edits))}):")
        console.print(_indented(example.fixed.text))


def _indented(model: str) -> str:
    return "\n".join(f"    {escape(line)}" for line in model.splitlines())
