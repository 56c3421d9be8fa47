"""The calibrate report for a terminal."""

from rich.console import Console
from rich.text import Text

from qdqtool.errors import escape, plural
from qdqtool.jobs.calibrate import CalibrateReport
from qdqtool.quantization.cluster.machine import ClusterUsed
from qdqtool.reports.kinds.check import data_origin
from qdqtool.reports.terminal import limit, placed, print_rest, print_written
from qdqtool.reports.text._shared import (
    SHOWN,
    print_chosen,
    print_preparation,
    print_preprocessing,
    print_repeated,
    print_single,
)


def render(report: CalibrateReport, console: Console) -> None:
    """Print the data, the tensors without values, and the file with the ranges."""
    source = escape(data_origin(report.data))
    console.print(
        Text.assemble(
            (f"ranges of {plural(report.tensors, 'tensor')}", "bold"),
            f" of {escape(report.model)}, calibrated with {report.method} over {_samples(report)} of {source}",
        )
    )
    print_preprocessing(report.data.preprocessing, console)
    if report.cluster is not None:
        _print_cluster(report.cluster, console)
    if report.resumed:
        console.print(f"continued after {plural(report.resumed, 'sample')} of an interrupted run")
    if report.data.seed is not None:
        console.print("RANDOM calibration: the ranges say nothing about real inputs", style="yellow")
    print_chosen(report.chosen, report.method_trial, console)
    print_preparation(report.preparation, console)
    print_repeated(report.data.samples, report.data.repeated, console)
    print_single(report.data.samples, report.data.repeated, console)
    for tensor in report.unseen[: limit(console, SHOWN)]:
        console.print(f"UNSEEN   {placed(tensor.tensor, tensor.graph)}: {escape(tensor.reason)}", style="yellow")
    print_rest(len(report.unseen), SHOWN, console)
    print_written(report.output, console)


def _print_cluster(used: ClusterUsed, console: Console) -> None:
    sent = f"; the model was sent to {used.sent} of them" if used.sent else ""
    console.print(f"run by {plural(used.workers, 'worker')} of {escape(used.scheduler)}{sent}")
    if used.lost:
        names = ", ".join(map(escape, used.lost))
        console.print(f"LOST     {plural(len(used.lost), 'worker')}: {names}; others ran their samples", style="yellow")
    for processor in used.other_processors:
        text = f"OTHER    processor in a worker: {escape(processor)}; its ranges may differ by rounding"
        console.print(text, style="yellow")


def _samples(report: CalibrateReport) -> str:
    if report.shard is None:
        return plural(report.samples, "sample")
    return f"{report.samples} of {plural(report.data.samples, 'sample')} (shard {report.shard})"
