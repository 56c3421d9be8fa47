"""One rule in full for a terminal."""

from rich.console import Console
from rich.text import Text

from qdqtool.jobs.catalogue import RuleCard
from qdqtool.jobs.rule_examples import ExampleCard
from qdqtool.reports.terminal import escape
from qdqtool.reports.text.findings import STYLES


def render(report: RuleCard, console: Console) -> None:
    """Print what the rule asks, why, whom it affects, what to do, and its examples."""
    console.print(Text.assemble((f"{report.code} {report.name}", "bold"), f" (since {report.since})"))
    console.print(report.summary)
    console.print()
    for heading, text in (("Why", report.why), ("Bad", report.bad), ("Good", report.good), ("Fix", report.remedy)):
        console.print(Text.assemble((f"{heading}: ", "bold"), text))
    for fix in report.fixes:
        console.print(Text.assemble(("--fix", "bold"), f" ({fix.label}): {fix.summary}"))
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
