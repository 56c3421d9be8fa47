"""``qdqtool verify-engine``: check an engine against its manifest, its model, this machine and a signature."""

from pathlib import Path

import click

from qdqtool.cli.options import emit, report_options


@click.command(short_help="Check an engine against its manifest, its model and this machine.")
@click.argument("engine", type=click.Path(path_type=Path))
@click.option(
    "--model",
    type=click.Path(path_type=Path),
    metavar="MODEL",
    help="The model that the engine was built from. Default: the file of that name beside the engine, if there is one.",
)
@click.option(
    "--public-key",
    type=click.Path(path_type=Path),
    metavar="KEY.pub",
    help="Verify the signature that `build --sign` wrote, with the public keys of OpenSSH in this file.",
)
@report_options
@click.pass_context
def command(
    ctx: click.Context, /, *, engine: Path, model: Path | None, public_key: Path | None, output_format: str
) -> None:
    """Check ENGINE against its manifest, its model and this machine.

    The engine is not run. The command checks schema and signature of the manifest, and size and hash of the engine, of
    the model and of its external data. The version and the compute capabilities in the header of the engine must match
    the installed version and the GPUs of this machine.

    Each check passes, fails, or is not possible on this machine. The exit code is 1 if a check fails.
    """
    from qdqtool.jobs.verify_engine import verify_engine

    report = verify_engine(engine, model=model, public_key=public_key)
    emit(report, output_format, "verify_engine", passed=report.passed)
    if not report.passed:
        ctx.exit(1)
