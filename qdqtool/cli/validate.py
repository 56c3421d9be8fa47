"""``qdqtool validate``: find every Q/DQ fault of models, without a GPU."""

from pathlib import Path
from typing import Any

import click

from qdqtool.cli._fix_options import fix_options, run_fixes, wants_fixes
from qdqtool.cli._options import emit
from qdqtool.cli._validate_options import deliver, refuse_with_fixes, settings_of, validate_options


@click.command(short_help="Find every Q/DQ fault of models, without a GPU.")
@click.argument("models", type=click.Path(path_type=Path), nargs=-1, metavar="MODEL...")
@validate_options
@fix_options
@click.pass_context
def command(context: click.Context, /, *, models: tuple[Path, ...], **options: Any) -> None:
    """Find every Q/DQ fault of each MODEL.

    A finding is an error, a warning or an info, and says what the target does: refused (it does not load, build or run
    the model), silent (it does, and the numbers are wrong), fallback (the layer runs in float), advice. Weights are not
    read. `qdqtool explain CODE` shows a rule in full.

    Options left out come from the nearest qdqtool.toml, or [tool.qdqtool] in pyproject.toml.

    Exit code 1 on findings, 3 when a model cannot be read (the others are reported all the same).
    """
    from qdqtool.pipeline.validate import validate_files

    settings = settings_of(options)
    if options["show_settings"]:
        emit(settings, "json" if options["output_format"] == "json" else "text", "settings")
        return
    if not models:
        raise click.UsageError("Missing argument 'MODEL...'.")
    if wants_fixes(options):
        refuse_with_fixes(options)
        code = run_fixes(
            models, options, settings.policy, fail_on=settings.fail_on, output_format=options["output_format"]
        )
        context.exit(code)
    report = validate_files(models, settings.policy, jobs=options["jobs"])
    context.exit(deliver(report, settings, options))
