"""``qdqtool run``: the outputs of an engine on this machine's GPU."""

from pathlib import Path
from typing import Any

import click

from qdqtool.cli.media import LAYOUT as MEDIA_LAYOUT
from qdqtool.cli.media import make_read_options, media_options
from qdqtool.cli.options import (
    constant_data_option,
    emit,
    output_format_option,
    output_option,
    sample_progress,
    samples_option,
    verbosity_options,
)
from qdqtool.cli.sections import REPORT, Layout, SectionedCommand

LAYOUT = Layout(
    sections={
        "Data": ("data", "samples", "allow_constant_data"),
        **MEDIA_LAYOUT,
        "Output": ("output",),
        "Report": REPORT,
    },
    examples=(
        "qdqtool run model.int8.engine --data images.npz -o outputs.npz",
        "qdqtool check model.int8.onnx --data images.npz --outputs outputs.npz",
    ),
)


@click.command(
    cls=SectionedCommand, layout=LAYOUT, short_help="Run an engine on this machine's GPU and keep its outputs."
)
@click.argument("engine", type=click.Path(path_type=Path))
@samples_option(
    "Samples: .npz, .npy, a folder of either, of images, of sound files or of ONNX test data, a .txt file, or "
    "script.py:func."
)
@constant_data_option()
@click.option("--samples", type=click.IntRange(min=1), metavar="N", help="Use only so many samples.  [default: all]")
@media_options()
@output_option("The outputs, as .npz in the layout that `check --outputs` reads.")
@output_format_option()
@verbosity_options()
def command(
    *, engine: Path, data: Path | None, samples: int | None, allow_constant_data: bool, output: Path, **values: Any
) -> None:
    """Run ENGINE on the GPU of this machine and write its outputs.

    ENGINE is an engine of TensorRT or TensorRT for RTX; or an ONNX model, which ONNX Runtime's provider for TensorRT
    for RTX compiles and runs. Without a GPU, its driver or a package the command ends with exit code 4.

    This command has never run on a GPU so far: `qdqtool explain gpu` has what was tested.
    """
    from qdqtool.engines.gpu.requirements import require_gpu
    from qdqtool.errors import UsageError

    if data is None:
        raise UsageError("there are no samples to run", hint="give them: `--data DATA`")
    require_gpu()  # before the imports below, which take a second
    from qdqtool.jobs.run import run_engine
    from qdqtool.samples.request import FileData

    request = FileData(
        path=data, samples=samples, allow_constant=allow_constant_data, options=make_read_options(values)
    )
    with sample_progress() as progress:
        report = run_engine(engine, request, output, progress=progress)
    emit(report, values["output_format"], "run")
