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
    """Show which Q/DQ pairs of BEFORE are removed, changed or moved in AFTER, and which pairs are new.

    Nodes are matched by name and by structure, so renamed tensors are no difference. A weight stored as codes equals a
    float weight with a Q/DQ pair if codes and scales are equal.

    --assert-preserved is a gate for simplifiers, optimizers and exporters. The exit code is 1 if BEFORE has no pairs,
    or if a pair of BEFORE is removed or changed. It is also 1 if nodes read other values: a pair moved across an
    operator that computes something, or an added pair quantizes a quantized tensor again. The gate accepts pairs that
    moved across an operator that only moves values, such as Transpose, and new pairs on float tensors.
    """
    from qdqtool.jobs.diff import diff_models

    report = diff_models(before, after)
    passed = report.preserved or not assert_preserved
    emit(report, output_format, "diff", passed=passed)
    context.exit(0 if passed else EXIT_LOST)
