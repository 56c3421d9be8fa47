"""``qdqtool migrate``: translate a command line of trtexec, Polygraphy or Model Optimizer."""

import shlex
from collections.abc import Sequence
from pathlib import Path

import click

from qdqtool.cli.options import emit, is_quiet, report_options
from qdqtool.errors import UsageError, escape


@click.command(short_help="Translate a command line of trtexec, Polygraphy or Model Optimizer.")
@click.argument("line", nargs=-1)
@click.option(
    "-f",
    "--file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help=r"Translate the command lines in FILE; \ continues a line, and # begins a comment.",
)
@click.option("--calib-data", default="", metavar="DATA", help="Samples for a command that needs calibration data.")
@click.option("--run", is_flag=True, help="Run the commands in order, until one fails.")
@report_options
@click.pass_context
def command(
    ctx: click.Context, /, *, line: tuple[str, ...], file: Path | None, calib_data: str, run: bool, output_format: str
) -> None:
    """Translate LINE, a command line of another tool between quotes, to commands of qdqtool.

    LINE calls trtexec, tensorrt_rtx, `polygraphy convert` or modelopt.onnx.quantization. The report lists what became
    of each option. No shell reads LINE: nothing in it is expanded or run. The exit code is 1 if an option without a
    counterpart changes the engine or its outputs, or if calibration data is missing.
    """
    from qdqtool.jobs.migrate import migrate, migrate_file, run_commands

    if bool(line) == (file is not None):
        raise UsageError(
            "name either a command line or --file FILE", hint="`qdqtool explain from-trtexec` has examples"
        )
    given = line[0] if len(line) == 1 else shlex.join(line)
    report = migrate(given, calib_data) if file is None else migrate_file(file, calib_data)
    is_text = output_format == "text"
    if is_text or not run:
        emit(report, output_format, "migrate", passed=not report.exit_code)
    if run:

        def begin(words: Sequence[str]) -> None:
            if not is_quiet():
                click.echo(escape(f"$ {shlex.join(words)}"), err=True)

        report = run_commands(report, begin, quiet_stdout=not is_text)
        if not is_text:
            emit(report, output_format, "migrate")
    ctx.exit(report.exit_code)
