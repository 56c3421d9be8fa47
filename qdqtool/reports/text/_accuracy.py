"""What quantizing cost the outputs, for a terminal."""

from rich.console import Console
from rich.text import Text

from qdqtool.accuracy.checking.accuracy import Accuracy, OutputAccuracy
from qdqtool.accuracy.task_metrics.result import MetricResult
from qdqtool.errors import plural
from qdqtool.reports.terminal import escape
from qdqtool.reports.text._rest import limit, print_rest

SHOWN = 20
POOR_DB = 10.0
"""Below this noise is more than a tenth of the signal's power: no task survives it, so the line stands out."""

DOUBT_DB = 0.5
"""A standard error from this on is printed: so few or so uneven samples tell no more."""

LOST_DB = 0.0
"""Below this the gate `accuracy` of `check` fails."""


def print_accuracy(accuracy: Accuracy | None, console: Console, baseline: str = "float model") -> None:
    """Print what an output lost against the baseline, in dB."""
    if accuracy is None:
        console.print("accuracy not measured: there is no data (--calib-data)")
        return
    if accuracy.problem:
        console.print(Text(f"accuracy NOT measured: {escape(accuracy.problem)}", "yellow"))
        return
    console.print(Text.assemble(("SQNR", "bold"), f" against the {baseline}, on ", _samples(accuracy)))
    if accuracy.refitted:
        console.print("  with ranges of the other samples only; the written model has those of all")
    if not accuracy.outputs:
        console.print("  no output has float values to compare", style="yellow")
    for output in accuracy.outputs[: limit(console, SHOWN)]:
        console.print(_output_line(output))
    print_rest(len(accuracy.outputs), SHOWN, console)
    if accuracy.metric is not None:
        _print_metric(accuracy.metric, baseline, console)


def _print_metric(metric: MetricResult, baseline: str, console: Console) -> None:
    what = plural(metric.predictions, "prediction" if metric.output is not None else "sample")
    unit = f" {metric.unit}" if metric.unit else ""
    loss = "" if metric.loss is None else f", a loss of {metric.loss:.4g} {metric.loss_unit}".rstrip()
    known = "" if metric.baseline is None else f", {baseline} {metric.baseline:.6g}{unit}"
    console.print(f"  metric     {escape(metric.name)}: {metric.value:.6g}{unit}{known}{loss}, on all {what}")
    if metric.baseline_chance is not None:
        console.print(Text(f"  the {baseline} is at chance: {escape(metric.baseline_chance)}", "yellow"))


def _samples(accuracy: Accuracy) -> Text:
    """Return which samples were run, and whether they chose something."""
    if accuracy.held_back:
        return Text(f"{plural(accuracy.samples, 'held-back sample')} of the calibration data")
    if accuracy.validation is not None:
        return Text(f"{plural(accuracy.samples, 'sample')} of {escape(accuracy.validation)}")
    return Text(f"{plural(accuracy.samples, 'calibration sample')}: {accuracy.reason}", "yellow")


def _output_line(output: OutputAccuracy) -> Text:
    line = _verdict(output)
    if output.other_shapes:
        line.append(f"; another shape than the float model's in {plural(output.other_shapes, 'sample')}", "yellow")
    if output.float_nonfinite:
        line.append(f"; NaN or infinite in the float model: {plural(output.float_nonfinite, 'element')}", "yellow")
    return line


def _verdict(output: OutputAccuracy) -> Text:
    name = escape(output.name)
    if not output.finite:
        return Text(f"  output     {name}: NaN or infinity where the float model has none", "bold red")
    if output.exact:
        return Text(f"  output     {name}: equal")
    if output.sqnr_db is None and output.other_shapes:
        return Text(f"  output     {name}: not compared", "yellow")
    if output.sqnr_db is None:
        return Text(f"  output     {name}: the float output is zero everywhere, and this one is not", "yellow")
    error = output.standard_error_db
    doubt = f" ± {error:.1f}" if error is not None and error >= DOUBT_DB else ""
    line = f"  output     {name}: {output.sqnr_db:.1f} dB{doubt}"
    if output.sqnr_db < LOST_DB:
        return Text(f"{line}, LOST: the error is larger than the output itself", "bold red")
    return Text(f"{line}, POOR", "yellow") if output.sqnr_db < POOR_DB else Text(line)
