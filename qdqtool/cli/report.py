"""``qdqtool report``: one HTML page about a quantized model."""

from pathlib import Path

import click

from qdqtool.cli._options import emit, output_format_option, output_option, verbosity_options


@click.command(short_help="Write one HTML page about a quantized model, from saved JSON reports.")
@click.argument("reports", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="REPORT.json...")
@output_option("The HTML file to write.", is_binary=False)
@output_format_option()
@verbosity_options()
def command(*, reports: tuple[Path, ...], output: Path, output_format: str) -> None:
    """Write one HTML page about a quantized model.

    Each REPORT.json is what `--output-format json` of quantize, validate, check, build, sensitivity or inspect printed,
    or report.json of convert. No model is read. The page shows the verdict first, then gates, data, versions, accuracy,
    layers, precision, sizes and findings. It is one file that needs no network.

    Reports of different models are refused. The verdict is 'failed' where a gate of any report failed; what no report
    says is shown as unknown. The exit code is 0 whatever the verdict is: it says that the page was written.
    """
    from qdqtool.page.write import write_page

    emit(write_page(reports, output), output_format, "report")
