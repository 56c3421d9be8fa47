"""The calibrate report for a terminal."""

from rich.console import Console
from rich.text import Text

from qdqtool.jobs.calibrate_report import CalibrateReport
from qdqtool.report.terminal import escape
from qdqtool.report.text._calibration import (
    SHOWN,
    print_chosen,
    print_preparation,
    print_preprocessing,
    print_repeated,
    print_single,
)
from qdqtool.report.text._rest import limit, print_rest
from qdqtool.wording import plural


def render(report: CalibrateReport, console: Console) -> None:
    """Print what was run, which tensors were never seen, and where the ranges are."""
    source = f"random inputs, seed {report.data.seed}" if report.data.seed is not None else escape(report.data.source)
    console.print(
        Text.assemble(
            (f"ranges of {plural(report.tensors, 'tensor')}", "bold"),
            f" of {escape(report.model)}, calibrated with {report.method} over {_samples(report)} of {source}",
        )
    )
    print_preprocessing(report.data.preprocessing, console)
    if report.resumed:
        console.print(f"went on from {plural(report.resumed, 'sample')} that an interrupted run had done")
    if report.data.seed is not None:
        console.print("RANDOM calibration: the ranges say nothing about real inputs", style="yellow")
    print_chosen(report.chosen, report.method_trial, console)
    print_preparation(report.preparation, console)
    print_repeated(report.data.samples, report.data.repeated, console)
    print_single(report.data.samples, report.data.repeated, console)
    for tensor in report.unseen[: limit(console, SHOWN)]:
        scope = f" in {escape(tensor.graph)}" if tensor.graph else ""
        console.print(f"UNSEEN   {escape(tensor.tensor)}{scope}: {escape(tensor.reason)}", style="yellow")
    print_rest(len(report.unseen), SHOWN, console)
    console.print(Text.assemble("wrote ", (escape(report.output), "bold")))


def _samples(report: CalibrateReport) -> str:
    if report.shard is None:
        return plural(report.samples, "sample")
    return f"{report.samples} of {plural(report.data.samples, 'sample')} (shard {report.shard})"
