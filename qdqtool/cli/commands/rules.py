"""``qdqtool rules``: list the rules of the linter."""

import click

from qdqtool.cli.options import emit, output_format_option


@click.command(short_help="List the rules that validate knows.")
@output_format_option()
def command(*, output_format: str) -> None:
    """List the rules that `qdqtool validate` knows, with the effect of a fault on each target."""
    from qdqtool.jobs.catalogue import catalogue

    emit(catalogue(), output_format, "rules")
