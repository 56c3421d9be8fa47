"""``qdqtool schema``: print the JSON Schema of a report or file."""

import click

from qdqtool.cli.completion import offer, schemas
from qdqtool.cli.options import emit, output_format_option


@click.command(short_help="Print the JSON Schema of a report or file.")
@click.argument("name", required=False, shell_complete=offer(schemas))
@output_format_option()
def command(*, name: str | None, output_format: str) -> None:
    """Print the JSON Schema NAME (draft 2020-12) of a file, or of the output of a command with --output-format json.

    Without NAME, the schemas are listed. A schema is printed as JSON in both output formats.
    """
    from qdqtool.reports.schemas import list_schemas, schema_text

    if name is None:
        emit(list_schemas(), output_format, "schema")
    else:
        click.echo(schema_text(name))
