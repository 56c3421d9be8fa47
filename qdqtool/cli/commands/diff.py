"""``qdqtool diff``: show the changes in Q/DQ between two models."""

from pathlib import Path

import click

from qdqtool.cli.options import emit, model_argument, report_options

EXIT_LOST = 1


@click.command(short_help="Show what changed in Q/DQ between two models.")
@model_argument("before")
@model_argument("after")
@click.option("--assert-preserved", is_flag=True, help="Exit with 1 unless AFTER has every pair of BEFORE, unchanged.")
@report_options
@click.pass_context
def command(
    context: click.Context, /, *, before: Path, after: Path, assert_preserved: bool, output_format: str
) -> None:
    """Show which Q/DQ pairs of BEFORE are gone, different or elsewhere in AFTER, and which are new.

    Nodes are matched by name and by structure, so renamed tensors make no difference. A weight stored as codes and one
    behind Q and DQ are equal when codes and scales are.

    With --assert-preserved the exit code is 1 when a pair of BEFORE is removed or changed, or when its readers get
    other values: behind a pair that moved across an operator that computes something, or behind an added pair that
    quantizes again. It is 1 too when BEFORE has no pairs. A gate for simplifiers, optimizers and exporters. Pairs that
    moved across a Transpose or another operator that only moves values pass, and pairs on tensors that were float.
    """
    from qdqtool.jobs.diff import diff_models

    report = diff_models(before, after)
    passed = report.preserved or not assert_preserved
    emit(report, output_format, "diff", passed=passed)
    context.exit(0 if passed else EXIT_LOST)
