"""``qdqtool merge``: merge the ranges of shards into the ranges of one run."""

from pathlib import Path

import click

from qdqtool.cli.options import emit, output_option, report_options


@click.command(short_help="Join the ranges of shards into one file.")
@click.argument("shards", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="SHARD...")
@output_option("The ranges file to write, JSON.", is_binary=False)
@report_options
def command(*, shards: tuple[Path, ...], output: Path, output_format: str) -> None:
    """Join the SHARDs that `qdqtool calibrate --shard I/N` wrote, in any order.

    The result has the same bytes as one run over all samples on the same kind of machine. All shards must
    have the same model, data, method and options, and no shard may be missing or given twice.
    """
    from qdqtool.jobs.merge import merge_to_file

    emit(merge_to_file(shards, output), output_format, "merge")
