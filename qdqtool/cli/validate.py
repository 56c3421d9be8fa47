"""``qdqtool validate``: find every Q/DQ fault of models, without a GPU."""

from pathlib import Path
from typing import Any

import click

from qdqtool.cli._fix_options import fix_options, run_fixes, wants_fixes
from qdqtool.cli._options import emit, output_format_option

EXIT_FINDINGS = 1
EXIT_UNREADABLE = 3


def _words(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> list[str]:
    """Every word of an option that takes commas and may be repeated."""
    return [word.strip() for value in values for word in value.split(",") if word.strip()]


@click.command(short_help="Find every Q/DQ fault of models, without a GPU.")
@click.argument("models", type=click.Path(path_type=Path), nargs=-1, required=True, metavar="MODEL...")
@click.option(
    "--target",
    "targets",
    multiple=True,
    default=["tensorrt"],
    show_default=True,
    callback=_words,
    metavar="TARGET,...",
    help="What the model is for: onnx, ort-cpu, tensorrt, tensorrt-rtx. Several with commas.",
)
@click.option(
    "--select", multiple=True, callback=_words, metavar="CODE,...", help="Only rules whose code begins so; ALL for all."
)
@click.option("--ignore", multiple=True, callback=_words, metavar="CODE,...", help="No rules whose code begins so.")
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning", "never"]),
    default="error",
    show_default=True,
    help="Exit with 1 on a finding of this severity or worse.",
)
@fix_options
@output_format_option()
@click.pass_context
def command(  # noqa: PLR0913 -- one argument for each option
    context: click.Context,
    /,
    *,
    models: tuple[Path, ...],
    targets: list[str],
    select: list[str],
    ignore: list[str],
    fail_on: str,
    output_format: str,
    **fixing: Any,
) -> None:
    """Find every Q/DQ fault of each MODEL.

    A finding is an error, a warning or an info, and says what the target does: refused (it does not load, build or run
    the model), silent (it does, and the numbers are wrong), fallback (the layer runs in float), advice. Weights are not
    read. `qdqtool explain CODE` shows a rule in full.

    Exit code 1 on findings, 3 when a model cannot be read (the others are reported all the same).
    """
    from qdqtool.pipeline.policy import Policy
    from qdqtool.pipeline.validate import validate_models

    if wants_fixes(fixing):
        policy = Policy(targets=tuple(targets), select=tuple(select) or None, ignore=tuple(ignore))
        context.exit(run_fixes(models, fixing, policy, fail_on=fail_on, output_format=output_format))

    report = validate_models(models, targets, select=select or None, ignore=ignore)
    emit(report, output_format, "findings")
    if report.unreadable:
        for model in report.unreadable:
            click.echo(_escape(f"error: {model.error}"), err=True)
        context.exit(EXIT_UNREADABLE)
    failed = fail_on != "never" and report.reaches("warning" if fail_on == "warning" else "error")
    context.exit(EXIT_FINDINGS if failed else 0)


def _escape(text: str) -> str:
    from qdqtool.report.terminal import escape

    return escape(text)
