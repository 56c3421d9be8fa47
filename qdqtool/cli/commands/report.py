"""``qdqtool report``: write one HTML page about a quantized model, or about two side by side."""

from pathlib import Path

import click

from qdqtool.cli.options import emit, output_option, report_options
from qdqtool.cli.sections import REPORT, Layout, SectionedCommand

LAYOUT = Layout(
    sections={"Page": ("output", "against"), "Report": REPORT},
    examples=(
        "qdqtool report quantize.json check.json build.json -o page.html",
        "qdqtool report int8.json fp8.json int8.check.json fp8.check.json -o page.html",
        "qdqtool report new/report.json --against old/report.json -o page.html",
    ),
)


@click.command(
    cls=SectionedCommand,
    layout=LAYOUT,
    short_help="Write one HTML page about a quantized model, from saved JSON reports.",
)
@click.argument("saved", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="REPORT.json...")
@output_option("The HTML file to write.", is_binary=False)
@click.option(
    "--against",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="REPORT.json",
    help="A report of a second model, to compare with the first model; repeat the option for each report.",
)
@report_options
def command(*, saved: tuple[Path, ...], output: Path, against: tuple[Path, ...], output_format: str) -> None:
    """Write one HTML page about a quantized model.

    Each REPORT.json is the output of quantize, validate, check, build, sensitivity or inspect with
    `--output-format json`, or report.json of convert. No model is read. The page shows the verdict first, then gates,
    data, versions, accuracy, layers, precision, sizes and findings. It is one file that needs no network.

    To compare two models, put --against before each report of the second model. The page shows their values side by
    side with the differences, then the sections of each model. --against is not needed if two reports of quantize or
    convert have different digests of the quantized model: other reports are assigned by digest. Otherwise reports of
    different models are refused.

    The report of `qdqtool check` without MODEL makes a page with a row and sections for each model.

    The verdict is 'failed' if a gate of any report failed. Values that no report has are shown as unknown. Each of two
    models has its own verdict. The exit code is 0 if the page was written, also for a failed verdict.
    """
    from qdqtool.reports.page.write import write_page

    emit(write_page(saved, output, against=against), output_format, "report")
