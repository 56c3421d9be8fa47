"""``qdqtool explain``: one rule in full."""

import click

from qdqtool.cli._options import emit, output_format_option


@click.command(short_help="Explain one rule: why, what to do, examples.")
@click.argument("rule", metavar="CODE")
@output_format_option()
def command(*, rule: str, output_format: str) -> None:
    """Explain the rule CODE, which is a code (QP101) or a name (parameters.scale-value)."""
    from qdqtool.jobs.catalogue import explain

    emit(explain(rule), output_format, "rule")
