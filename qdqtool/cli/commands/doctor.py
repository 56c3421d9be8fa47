"""``qdqtool doctor``: show what works on this machine, and why other things do not."""

import click

from qdqtool.cli.options import emit, output_format_option


@click.command(short_help="Show which commands work on this machine, and what others lack.")
@output_format_option()
def command(*, output_format: str) -> None:
    """Show which commands work on this machine. For the others, show what is missing and how to install it.

    Always ends with exit code 0: a missing optional package is no failure.
    """
    from qdqtool.jobs.doctor import examine

    emit(examine(), output_format, "doctor")
