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
    help="A report of a second model, which the first is compared with; repeat it for each report.",
)
@report_options
def command(*, saved: tuple[Path, ...], output: Path, against: tuple[Path, ...], output_format: str) -> None:
    """Write one HTML page about a quantized model.

    Each REPORT.json is what `--output-format json` of quantize, validate, check, build, sensitivity or inspect printed,
    or report.json of convert. No model is read. The page shows the verdict first, then gates, data, versions, accuracy,
    layers, precision, sizes and findings. It is one file that needs no network.

    With reports of a second model, each after --against, the page compares the two: values side by side with their
    differences, then the sections of each. Without --against, two reports of quantize or convert with different digests
    of the quantized model do the same, and other reports are assigned to them by their digests. Otherwise reports of
    different models are refused.

    The verdict is 'failed' where a gate of any report failed; what no report says is shown as unknown. Each of two
    models has a verdict of its own. The exit code is 0 whatever the verdict is: it says that the page was written.
    """
    from qdqtool.reports.page.write import write_page

    emit(write_page(saved, output, against=against), output_format, "report")
