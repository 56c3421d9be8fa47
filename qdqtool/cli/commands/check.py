"""``qdqtool check``: a model's numbers against our own core, ONNX Runtime on the CPU and a float baseline."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from qdqtool.cli.completion import offer, units
from qdqtool.cli.media import LAYOUT as MEDIA_LAYOUT
from qdqtool.cli.media import make_read_options, media_options, require_data
from qdqtool.cli.options import (
    OutputPath,
    constant_data_option,
    emit,
    layer_progress,
    model_argument,
    output_format_option,
    samples_option,
    shapes_option,
    values_option,
    verbosity_options,
)
from qdqtool.cli.reports import reports_option
from qdqtool.cli.sections import REPORT, Layout, SectionedCommand

if TYPE_CHECKING:
    from qdqtool.accuracy.checking.options import CheckOptions

GATES = ("min_sqnr", "min_cosine", "min_agreement", "max_steps", "max_weight_steps", "max_metric_loss")

LAYOUT = Layout(
    sections={
        "What is compared": ("baseline", "engine", "outputs", "save_outputs", "metric", "profile"),
        "Data": ("data", "allow_constant_data", "samples", "seed", "input_shapes", "input_values"),
        **MEDIA_LAYOUT,
        "Gates": GATES,
        "Report": ("blame", "reports", *REPORT),
    },
    examples=(
        "qdqtool check model.int8.onnx --baseline model.onnx --data images.npz",
        "qdqtool check model.int8.onnx --baseline model.onnx --min-sqnr 20",
    ),
)


@click.command(
    cls=SectionedCommand,
    layout=LAYOUT,
    short_help="Check a model's numbers against ONNX Runtime on the CPU and a float baseline.",
)
@model_argument()
@click.option(
    "--baseline",
    type=click.Path(path_type=Path),
    metavar="FLOAT.onnx",
    help="The float model to compare with, on the same feeds.",
)
@samples_option(
    "Samples: .npz, .npy, a folder of either, of images, of sound files or of ONNX test data, a .txt file, or "
    "script.py:func. Default: random "
    "inputs."
)
@constant_data_option()
@click.option(
    "--seed", type=click.IntRange(min=0), metavar="N", default=0, show_default=True, help="Seed of random inputs."
)
@click.option(
    "--samples",
    type=click.IntRange(min=1),
    metavar="N",
    help="Use only so many samples.  [default: all, or 4 random ones]",
)
@shapes_option("--input-shapes", "Fix the shape of an input")
@values_option("Feed an input one value in every sample (a quantized model notes its own)")
@media_options()
@click.option(
    "--engine",
    type=click.Path(path_type=Path),
    metavar="ENGINE",
    help="Run this engine on the GPU of this machine, and compare its outputs with the reference. Never run so far: "
    "`qdqtool explain gpu`.",
)
@click.option(
    "--outputs",
    type=click.Path(path_type=Path),
    metavar="FILE.npz",
    help="Outputs for the same --data that were computed elsewhere, to compare with the reference.",
)
@click.option(
    "--save-outputs",
    type=OutputPath(is_binary=True),
    metavar="FILE.npz",
    help="Write the outputs of the reference, in the layout that --outputs reads.",
)
@click.option(
    "--metric",
    metavar="NAME[:OUTPUT]",
    shell_complete=offer(units("accuracy.task_metrics.metrics")),
    help="Measure the task by the array 'labels' in --data: top-1, perplexity, or your function SCRIPT.py:func.",
)
@click.option("--min-sqnr", type=float, metavar="DB", help="Signal to noise ratio of every float output.")
@click.option("--min-cosine", type=float, metavar="X", help="Cosine of every float output with the baseline's.")
@click.option(
    "--min-agreement",
    type=float,
    metavar="SHARE",
    help="Share of every integer, boolean and string output that equals the baseline's; 0.9 with --min-sqnr or "
    "--min-cosine.",
)
@click.option("--max-steps", type=float, metavar="K", help="Distance of every quantized tensor, in steps.")
@click.option(
    "--max-weight-steps",
    type=float,
    default=0.5,
    show_default=True,
    metavar="K",
    help="Distance of packed weights that are not clipped; 'inf' where another tool did not round to nearest.",
)
@click.option(
    "--max-metric-loss",
    type=float,
    metavar="X",
    help="Loss of the metric against the baseline; percentage points for top-1, percent for perplexity, "
    "what your function returns.",
)
@click.option(
    "--profile",
    type=click.Choice(["semantic", "deployed"]),
    default="semantic",
    show_default=True,
    help="Outputs as ONNX means them, or as ONNX Runtime computes them with its default optimizations.",
)
@click.option(
    "--blame",
    is_flag=True,
    help="Name the layers that cost the worst output most, also where every gate holds.",
)
@reports_option()
@output_format_option()
@verbosity_options()
@click.pass_context
def command(  # noqa: PLR0913 -- one argument for each option that says what runs on what
    context: click.Context,
    /,
    *,
    model: Path,
    baseline: Path | None,
    data: Path | None,
    seed: int,
    samples: int | None,
    allow_constant_data: bool,
    input_shapes: tuple[str, ...],
    input_values: tuple[str, ...],
    blame: bool,
    output_format: str,
    **values: Any,
) -> None:
    """Check the numbers of MODEL.

    Every QuantizeLinear and DequantizeLinear is evaluated by qdqtool's own core on the values it really had in the
    ONNX Runtime CPU reference, and must agree in every bit. Every DQ must undo the Q before it, every scale must fit
    the values that its Q reads, and no output may have NaN or infinities. With --baseline, outputs, activations and
    packed weights are compared with the float model, and no output may be lost; with --outputs, what another machine
    made of the same --data is compared with the reference, and with --engine, what an engine makes of it on the GPU
    of this one. Where an output misses a gate, the layers that cost it most are named, with the options that leave
    them in float.

    Exit code 1 when a gate is missed; `qdqtool explain check` explains each of them.
    """
    if values["engine"] is not None:
        from qdqtool.engines.gpu.requirements import require_gpu

        require_gpu()  # before the imports below, which take a second
    from qdqtool.accuracy.checking.check_blame import BlameRequest
    from qdqtool.jobs.check import check_model
    from qdqtool.samples.input_shapes import parse_numbers, parse_shapes
    from qdqtool.samples.request import DataRequest

    options = make_options(values)
    require_data(values, data is not None)
    request = DataRequest(
        path=data,
        seed=seed,
        samples=samples,
        allow_constant=allow_constant_data,
        options=make_read_options(values),
        input_shapes=parse_shapes(input_shapes, "--input-shapes"),
        input_values=parse_numbers(input_values, "--input-values"),
    )
    with layer_progress() as (progress, tick):
        asked = BlameRequest(always=blame, tick=tick)
        report = check_model(model, baseline=baseline, data=request, options=options, progress=progress, blame=asked)
    emit(report, output_format, "check", passed=report.passed)
    context.exit(0 if report.passed else 1)


def make_options(values: dict[str, Any]) -> "CheckOptions":
    """The options that the values of this command ask for: gates, and what is done with the outputs."""
    from qdqtool.accuracy.checking.limits import Gates
    from qdqtool.accuracy.checking.options import CheckOptions
    from qdqtool.models.running.ort_cpu import Profile

    return CheckOptions(
        gates=Gates(**{name: values[name] for name in GATES}),
        profile=Profile(values["profile"]),
        engine=values.get("engine"),
        outputs=values.get("outputs"),
        save_outputs=values["save_outputs"],
        metric=values["metric"],
    )
