"""The rule catalogue for a terminal."""

from rich.console import Console

from qdqtool.errors import plural
from qdqtool.jobs.catalogue import Catalogue, RuleCard
from qdqtool.models import targets
from qdqtool.reports.terminal import make_table, print_unbroken


def render(report: Catalogue, console: Console) -> None:
    """Print a row for each rule; outside a terminal always one line, whatever COLUMNS says."""
    table = make_table("code", "name", "severity", "effect", "targets", "rule", optional=("targets", "effect", "name"))
    for card in report.rules:
        worst = card.impacts[0] if len({impact.severity for impact in card.impacts}) == 1 else None
        severities = worst.severity if worst else "/".join(dict.fromkeys(impact.severity for impact in card.impacts))
        effects = "/".join(dict.fromkeys(impact.effect for impact in card.impacts))
        table.add_row(card.code, card.name, severities, effects, _targets(card), card.summary)
    print_unbroken(table, console)
    console.print(f"{plural(len(report.rules), 'rule')}; qdqtool explain CODE shows one in full")
    console.print(f"targets: {targets.legal()}")


def _targets(card: RuleCard) -> str:
    return ", ".join(impact.target for impact in card.impacts)
