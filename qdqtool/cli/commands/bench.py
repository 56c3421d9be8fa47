"""``qdqtool bench``: time an engine on the GPU of this machine."""

from pathlib import Path
from typing import Any

import click

from qdqtool.cli.declared import options_of, values_of
from qdqtool.cli.options import emit, report_options, step_progress
from qdqtool.cli.sections import REPORT, Layout, SectionedCommand
from qdqtool.engines.options import BenchCommand
from qdqtool.options import build

LAYOUT = Layout(
    sections={"What is timed": (), "How often": (), "Gates": (), "Report": REPORT},
    examples=(
        "qdqtool bench model.int8.engine",
        "qdqtool bench model.int8.engine --against model.engine --speedup '>=1.2x'",
    ),
)


@click.command(cls=SectionedCommand, layout=LAYOUT, short_help="Time an engine on this machine's GPU.")
@click.argument("engine", type=click.Path(path_type=Path))
@options_of(BenchCommand)
@report_options
@click.pass_context
def command(context: click.Context, /, *, engine: Path, output_format: str, **words: Any) -> None:
    """Time ENGINE on the GPU of this machine.

    ENGINE is an engine of TensorRT or TensorRT for RTX; or an ONNX model, which ONNX Runtime's provider for TensorRT
    for RTX compiles and runs. With --against, the two engines run in turn, so that a change of the clock frequency
    affects both times. The command ends with exit code 4 if the GPU, its driver or a required package is missing.

    This command has never run on a GPU so far: `qdqtool explain build` lists what was tested.
    """
    from qdqtool.engines.gpu.requirements import require_gpu
    from qdqtool.engines.gpu.speedup_gate import parse_speedup

    values = values_of(BenchCommand, words)
    gate = parse_speedup(values.pop("speedup")) if "speedup" in values else None
    require_gpu()  # before the imports below, which take a second
    from qdqtool.engines.gpu.timing import TimingOptions
    from qdqtool.jobs.bench import bench_engine

    with step_progress() as (_, progress, _):
        timing = build(TimingOptions, values)
        report = bench_engine(engine, timing=timing, speedup=gate, progress=progress, **values)
    emit(report, output_format, "bench", passed=report.passed)
    context.exit(0 if report.passed else 1)
