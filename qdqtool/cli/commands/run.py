"""``qdqtool run``: compute the outputs of an engine on the GPU of this machine."""

from pathlib import Path
from typing import Any

import click

from qdqtool.cli.declared import options_of, values_of
from qdqtool.cli.options import emit, output_option, report_options, step_progress
from qdqtool.cli.sections import REPORT, Layout, SectionedCommand
from qdqtool.engines.options import RunCommand

LAYOUT = Layout(
    sections={"Data": ("data", "samples"), "Images": (), "Sound and text": (), "Output": ("output",), "Report": REPORT},
    first=("data", "output", "samples", "image_preset", "output_format", "help"),
    examples=(
        "qdqtool run model.int8.engine --data images.npz -o outputs.npz",
        "qdqtool check model.int8.onnx --data images.npz --outputs outputs.npz",
    ),
)


@click.command(
    cls=SectionedCommand, layout=LAYOUT, short_help="Run an engine on this machine's GPU and write its outputs."
)
@click.argument("engine", type=click.Path(path_type=Path))
@options_of(RunCommand)
@output_option("The outputs, as .npz in the layout that `check --outputs` reads.")
@report_options
def command(*, engine: Path, output: Path, output_format: str, **words: Any) -> None:
    """Run ENGINE on the GPU of this machine and write its outputs.

    ENGINE is an engine of TensorRT or TensorRT for RTX; or an ONNX model, which ONNX Runtime's provider for TensorRT
    for RTX compiles and runs. The command ends with exit code 4 if the GPU, its driver or a required package is
    missing.

    This command has never run on a GPU so far: `qdqtool explain build` lists what was tested.
    """
    from qdqtool.engines.gpu.requirements import require_gpu
    from qdqtool.errors import UsageError

    values = values_of(RunCommand, words)
    if "data" not in values:
        raise UsageError("no samples are given", hint="add `--data DATA`")
    require_gpu()  # before the imports below, which take a second
    from qdqtool.jobs.request import file_data
    from qdqtool.jobs.run import run_engine

    with step_progress() as (_, progress, _):
        report = run_engine(engine, file_data(values), output, progress=progress)
    emit(report, output_format, "run")
