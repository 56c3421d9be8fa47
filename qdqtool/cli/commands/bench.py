"""``qdqtool bench``: the times of an engine on this machine's GPU."""

from pathlib import Path

import click

from qdqtool.cli.options import emit, output_format_option, sample_progress, samples_option, verbosity_options
from qdqtool.cli.sections import REPORT, Layout, SectionedCommand

LAYOUT = Layout(
    sections={
        "What is timed": ("against", "data"),
        "How often": ("rounds", "runs", "warm_up"),
        "Gates": ("speedup",),
        "Report": REPORT,
    },
    examples=(
        "qdqtool bench model.int8.engine",
        "qdqtool bench model.int8.engine --against model.engine --speedup '>=1.2x'",
    ),
)


@click.command(cls=SectionedCommand, layout=LAYOUT, short_help="Time an engine on this machine's GPU.")
@click.argument("engine", type=click.Path(path_type=Path))
@click.option(
    "--against",
    type=click.Path(path_type=Path),
    metavar="FLOAT.engine",
    help="The engine of the float model; the two take turns.",
)
@samples_option("Samples, of which the first is run. Default: a random one of the shapes that ENGINE was built for.")
@click.option(
    "--rounds",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    metavar="N",
    help="How often the engines take turns.",
)
@click.option(
    "--runs",
    type=click.IntRange(min=1),
    default=50,
    show_default=True,
    metavar="N",
    help="Inferences in each round that count.",
)
@click.option(
    "--warm-up",
    type=click.IntRange(min=0),
    default=20,
    show_default=True,
    metavar="N",
    help="Inferences before them that do not count.",
)
@click.option(
    "--speedup",
    metavar=">=RATIOx",
    help="Fail unless ENGINE is so many times as fast as --against, and name the layers that are slower: '>=1.2x'.",
)
@output_format_option()
@verbosity_options()
@click.pass_context
def command(
    context: click.Context,
    /,
    *,
    engine: Path,
    against: Path | None,
    data: Path | None,
    speedup: str | None,
    output_format: str,
    **often: int,
) -> None:
    """Time ENGINE on the GPU of this machine.

    ENGINE is an engine of TensorRT or TensorRT for RTX; or an ONNX model, which ONNX Runtime's provider for TensorRT
    for RTX compiles and runs. With --against the two are run in turn, so that clocks that drift change both times
    alike. Without a GPU, its driver or a package the command ends with exit code 4.

    This command has never run on a GPU so far: `qdqtool explain gpu` has what was tested.
    """
    from qdqtool.engines.gpu.requirements import require_gpu
    from qdqtool.engines.gpu.speedup_gate import parse_speedup

    gate = parse_speedup(speedup) if speedup is not None else None
    require_gpu()  # before the imports below, which take a second
    from qdqtool.engines.gpu.timing import TimingOptions
    from qdqtool.jobs.bench import bench_engine

    with sample_progress() as progress:
        report = bench_engine(
            engine, against=against, data=data, timing=TimingOptions(**often), speedup=gate, progress=progress
        )
    emit(report, output_format, "bench", passed=report.passed)
    context.exit(0 if report.passed else 1)
