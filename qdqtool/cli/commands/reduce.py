"""``qdqtool reduce``: find the smallest model on which a command fails in the same way."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from qdqtool.cli.declared import options_of, values_of
from qdqtool.cli.options import emit, is_quiet, model_argument, output_option, report_options
from qdqtool.cli.sections import REPORT, Layout, SectionedCommand
from qdqtool.jobs.reduction.options import ReduceOptions
from qdqtool.options import build

LAYOUT = Layout(
    terms={
        "Failures": (
            ("build, check", "`qdqtool build` or `check` ends with the same refusals, missed gates or message."),
            ("COMMAND", "The same exit code or signal, and the same last line on stderr, or else on stdout."),
            ("alike", "Names, numbers and paths in a message may differ. A time-out is a failure of its own."),
        )
    },
    sections={"What fails": ("fails",), "Search": (), "Output": ("output",), "Report": REPORT},
    examples=(
        "qdqtool reduce model.onnx --fails build -o small.onnx",
        "qdqtool reduce model.onnx --fails build -o small.onnx -- --backend tensorrt-rtx --skip-validate",
        "qdqtool reduce model.onnx --fails 'python infer.py {}' --timeout 60 -o small.onnx",
    ),
)


@click.command(
    cls=SectionedCommand,
    layout=LAYOUT,
    short_help="Find the smallest model on which build, check or another command fails alike.",
)
@model_argument()
@click.argument("options", nargs=-1, type=click.UNPROCESSED, metavar="[-- OPTIONS...]")
@click.option(
    "--fails",
    required=True,
    metavar="build|check|COMMAND",
    help="The command that fails; in a COMMAND, {} stands for the path of the model. Options of build or check follow "
    "after --, or in the same word: 'check --min-sqnr 30'.",
)
@options_of(ReduceOptions)
@output_option("The reduced model to write.")
@report_options
def command(
    *, model: Path, options: tuple[str, ...], fails: str, output: Path, output_format: str, **words: Any
) -> None:
    """Find the smallest model on which a command fails as it does on MODEL.

    The search removes nodes, takes apart bodies and local functions, simplifies attributes and weights, and makes
    tensors smaller. It keeps a change if the command still fails alike. Each run is a process of its own, so crashes
    and time-outs can be reduced too. The command first runs twice on MODEL. A report with the command, the error and
    the versions is written beside the result. Ctrl-C ends the search with the smallest model so far.
    """
    from qdqtool.jobs.reduce import reduce_model

    how = build(ReduceOptions, values_of(ReduceOptions, words), options=options)
    with _run_progress() as progress:
        found = reduce_model(model, output, fails, how, progress)
    emit(found, output_format, "reduce")


@contextmanager
def _run_progress() -> Iterator[Callable[[int, int], None]]:
    """Yield a function that shows the number of runs and of remaining nodes on stderr, if stderr is a terminal."""
    from rich.console import Console
    from rich.status import Status

    console = Console(stderr=True)
    if is_quiet() or not console.is_interactive:
        yield lambda *_: None
        return
    with Status("", console=console) as status:
        yield lambda runs, nodes: status.update(f"run {runs}, {nodes} nodes left")
