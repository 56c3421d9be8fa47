"""The quantize report for a terminal."""

import math
from collections import Counter

from rich.console import Console
from rich.text import Text

from qdqtool.accuracy.report import Accuracy, MetricResult, OutputAccuracy
from qdqtool.accuracy.search.blame import FAIR_DB
from qdqtool.accuracy.search.goal_report import GoalReport, MetricGoal
from qdqtool.errors import escape, plural
from qdqtool.jobs.quantize_report import QuantizeReport
from qdqtool.quantization.calibration_report import CalibrationUsed
from qdqtool.quantization.planning import modes
from qdqtool.reports.advice import command
from qdqtool.reports.terminal import limit, lists_all, placed, print_rest
from qdqtool.reports.text._shared import (
    SHOWN,
    print_chosen,
    print_cost_of_half,
    print_counts,
    print_files,
    print_given,
    print_high_precision,
    print_opset,
    print_pairs,
    print_preparation,
    print_preprocessing,
    print_reasons,
    print_repeated,
    print_single,
    print_skipped,
    verdict_text,
)
from qdqtool.reports.text.sensitivity import print_blame, print_pair_errors


def render(report: QuantizeReport, console: Console) -> None:
    """Print how the model was made, and unquantized nodes; then, to stay visible, files, accuracy and verdict."""
    _print_making(report, console)
    print_skipped(report.skipped, console)
    _print_others(report, console)
    print_pairs(report.quantized, console)
    if _has_details(report, console):
        console.print()
    _print_result(report, console)


def _has_details(report: QuantizeReport, console: Console) -> bool:
    made = (report.calibration, report.preparation, report.inlined, report.corrected, report.separated)
    left = (report.degenerate, report.high_precision, report.skipped, lists_all(console) and report.quantized)
    return any((*made, *left))


def _print_making(report: QuantizeReport, console: Console) -> None:
    """Print the changes to the model, apart from the insertion of pairs."""
    if report.calibration is not None:
        _print_calibration(report.calibration, console)
    print_preparation(report.preparation, console)
    for found in report.inlined:
        calls = plural(found.calls, "call")
        console.print(f"function {escape(found.function)} inlined: each of its {calls} has its own ranges")
    if report.corrected:
        console.print(f"biases corrected behind {plural(len(report.corrected), 'weight')}")
    if report.separated:
        count = plural(len(report.separated), "product")
        console.print(f"{count} for queries, keys and values split into three products each, to run quantized")
    _print_degenerate(report, console)
    print_high_precision(report.high_precision, console)


def _print_others(report: QuantizeReport, console: Console) -> None:
    """Print the operators that can never have pairs; skipped nodes, which could have pairs, are listed elsewhere."""
    skipped = {node.node for node in report.skipped}
    plain = (node for node in report.nodes if not node.weights and not any(node.formats) and node.name not in skipped)
    counts = ", ".join(f"{count} {escape(kind)}" for kind, count in Counter(node.op_type for node in plain).items())
    if counts and any(tensor.kind == "activation" for tensor in report.quantized):
        console.print(f"operators without a Q/DQ form: {counts}; the target fuses them or computes them in float")


def _print_result(report: QuantizeReport, console: Console) -> None:
    print_counts(report.quantized, report.model, console)
    _print_files(report, console)
    print_opset(report.opset_before, report.opset_after, console)
    if report.existing == "keep" and not report.quantized and report.high_precision is None:
        console.print("nothing was left to quantize: the model is written unchanged")
    else:
        print_accuracy(report.accuracy, console, _BASELINES.get(report.existing or "", "float model"))
    _print_noise(report, console)
    if report.goal is not None:
        print_goal(report.goal, console)
    else:
        _print_way_to_better(report, console)
    console.print()
    _print_verdict(report, console)


def _print_noise(report: QuantizeReport, console: Console) -> None:
    """Print the layers that make the noise at the worst output, or the noisiest pairs if no layer is known."""
    if report.blame is not None:
        print_blame(report.blame, console)
        used = report.calibration
        if report.blame.layers and used is not None and used.method_used == "percentile":
            console.print("the method 'percentile' clips values: `--calibration-method max` clips none")
    if report.accuracy is not None and (lists_all(console) or report.blame is None or not report.blame.layers):
        print_pair_errors(report.accuracy.worst, console)


def _print_files(report: QuantizeReport, console: Console) -> None:
    print_files(report.output, report.external_data, report.sizes, console)
    files = (("ranges", report.ranges_file), ("plan", report.plan_file), ("curve", report.curve_file))
    for what, path in files:
        if path is not None:
            console.print(Text.assemble(f"{what} in ", (escape(path), "bold")))
    if report.codes_not_in_plan:
        lost = plural(report.codes_not_in_plan, "weight")
        console.print(f"the plan has the scales of {lost}, but not the codes chosen with data", style="yellow")


def _print_way_to_better(report: QuantizeReport, console: Console) -> None:
    """Print how to find the layers that cost most, if an output has a low SQNR."""
    used, outputs = report.calibration, () if report.accuracy is None else report.accuracy.outputs
    if used is None or used.random or not any(each.sqnr_db is not None and each.sqnr_db < FAIR_DB for each in outputs):
        return
    data = "DATA" if used.from_file or used.given is not None else used.source
    advised = escape(command("sensitivity", report.model, "--calib-data", data))
    console.print(
        f"to measure the noise of each layer: `{advised}`, with the same options; `--min-sqnr DB` leaves the fewest "
        "layers unquantized",
        soft_wrap=True,
    )


def _print_calibration(used: CalibrationUsed, console: Console) -> None:
    if used.given is not None:
        print_given(used.given, console)
        return
    source = "random inputs" if used.source == "random" else escape(used.source)
    data = f"{plural(used.samples, 'sample')} of {source}"
    if used.from_file:
        samples = plural(used.samples, "sample")
        console.print(f"ranges from {source}, calibrated with {used.method} over {samples}")
    else:
        console.print(_WITHOUT_RANGES.get(used.method, f"calibrated with {used.method} over ") + data)
    print_preprocessing(used.preprocessing, console)
    print_chosen(used.chosen, used.method_trial, console)
    if used.held_back:
        console.print(f"{plural(used.held_back, 'sample')} of {source} held out, only to measure")
    print_repeated(used.samples + used.held_back, used.repeated, console)
    if used.method not in _WITHOUT_RANGES:
        print_single(used.samples, used.repeated, console)
    if used.random:
        console.print(f"RANDOM calibration, seed {used.seed}: it says nothing about real inputs", style="yellow")
    for what in used.forced_for:
        console.print(f"FORCED: {_FORCED[what]}", style="yellow")


_WITHOUT_RANGES = {
    "gptq": "codes of weights chosen (gptq) over ",
    "nearest": "codes of weights rounded to nearest; weights prepared and measured with ",
}

_FORCED = {
    "model": "the ranges come from another model",
    "data": "the ranges and the accuracy come from different data",
    "samples": "the ranges come from a part of the samples",
}

_CONDITIONS = {
    "zeros": "nothing but zeros",
    "tiny": "only tiny values",
    "constant": "one value only",
    "mask": "an attention mask among its values",
    "strays": "a few values far away from all others",
}


def _print_degenerate(report: QuantizeReport, console: Console) -> None:
    parts = "blocks" if modes.get(report.mode).blocks else "channels"
    for found in report.degenerate[: limit(console, SHOWN)]:
        who = f"{found.scales} of {found.of} {parts} " if found.of > 1 else ""
        verb = "holds" if found.of == 1 or found.scales == 1 else "hold"
        what = f"{who}{verb} {_CONDITIONS[found.condition]}; {escape(found.action)}"
        console.print(f"note     {found.kind} {placed(found.tensor, found.graph)}: {what}")
    print_rest(len(report.degenerate), SHOWN, console)


def _print_verdict(report: QuantizeReport, console: Console) -> None:
    by_severity = Counter[str](finding.severity for finding in report.findings)
    verdict = ("fail", "bold red") if by_severity["error"] else ("pass", "bold green")
    counts = (plural(by_severity[each], each) for each in ("error", "warning", "info")[not by_severity["error"] :])
    console.print(Text.assemble("validate for ", report.target, ": ", verdict, f" ({', '.join(counts)})"))
    shown = [finding for level in ("error", "warning") for finding in report.findings if finding.severity == level]
    for finding in shown[: limit(console, SHOWN)]:
        where = f" {escape(finding.node)}:" if finding.node else ""
        color = "red" if finding.severity == "error" else "yellow"
        console.print(Text.assemble("  ", (finding.code, color), f"{where} {escape(finding.message)}"))
    print_rest(len(shown), SHOWN, console)
    print_reasons(report.reasons, console)
    console.print(verdict_text(report.verdict))


SHOWN_STATES = 8


def print_goal(goal: GoalReport, console: Console) -> None:
    """Print how the accuracy target was reached, and the layers that left the quantized format, most costly first."""
    before = "has no noise" if goal.worst_without_db is None else f"keeps {goal.worst_without_db:.1f} dB"
    if goal.worst_without_db is not None and math.isinf(goal.worst_without_db):
        before = "is NaN or infinite somewhere"
    limits = [] if goal.min_sqnr_db is None else [f"{goal.min_sqnr_db:g} dB"]
    if goal.metric is not None:
        limits.append(_loss(goal.metric.max_loss, goal.metric) + f" of {escape(goal.metric.name)}")
        before += f", and {escape(goal.metric.name)} loses {_loss(goal.metric.loss_without, goal.metric)}"
    secondary = "" if goal.fallback is None else f" and {len(goal.finer)} in {goal.fallback}"
    console.print(
        f"{len(goal.left)} of {goal.layers} layers unquantized{secondary} for {' and '.join(limits)}, "
        f"{goal.float_share + goal.finer_share:.1%} of the cost; with all quantized the worst output {before}",
        style="bold",
    )
    if goal.metric is not None:
        _print_goal_metric(goal.metric, console)
    levels = [*((layer, "float") for layer in goal.left), *((layer, goal.fallback) for layer in goal.finer)]
    for layer, level in sorted(levels, key=lambda each: -each[0].share)[: limit(console, SHOWN_STATES)]:
        more = f" (+{len(layer.nodes) - 1})" if len(layer.nodes) > 1 else ""
        where = "" if goal.fallback is None else f"{level}, "
        console.print(f"  {escape(layer.op_type)} {escape(layer.node)}{more}: {where}{layer.share:.1%}")
    print_rest(len(levels), SHOWN_STATES, console)


def _print_goal_metric(metric: MetricGoal, console: Console) -> None:
    what = "samples" if metric.output is None else "predictions"
    console.print(
        f"  {escape(metric.name)} loses {_loss(metric.choosing_loss, metric)} on the {metric.choosing_predictions} "
        f"selection {what}, {_loss(metric.loss, metric)} on the {metric.predictions} for the final measurement; "
        f"{plural(metric.models, 'model')} measured"
    )


def _loss(loss: float, metric: MetricGoal) -> str:
    return f"{loss:.4g} {metric.loss_unit}".rstrip()


SHOWN_OUTPUTS = 20
DOUBT_DB = 0.5
"""A standard error of at least this is printed: the samples are too few or too uneven for a precise SQNR."""

LOST_DB = 0.0
"""An SQNR below this fails the gate ``accuracy`` of ``check``."""


_BASELINES = {"keep": "model as given", "replace": "model without its Q/DQ (`qdqtool check --baseline FLOAT.onnx`)"}
"""For each value of ``--existing``, the model with which the accuracy is measured."""


def print_accuracy(accuracy: Accuracy | None, console: Console, baseline: str = "float model") -> None:
    """Print the SQNR of each output against the baseline."""
    if accuracy is None:
        console.print("accuracy not measured: there is no data (--calib-data)")
        return
    if accuracy.problem:
        console.print(Text(f"accuracy NOT measured: {escape(accuracy.problem)}", "yellow"))
        return
    console.print(Text.assemble(("SQNR", "bold"), f" against the {baseline}, on ", _measured_on(accuracy)))
    if accuracy.refitted:
        console.print("  measured with ranges from the other samples; the written model has ranges from all samples")
    if not accuracy.outputs:
        console.print("  no output has float values to compare", style="yellow")
    for output in accuracy.outputs[: limit(console, SHOWN_OUTPUTS)]:
        console.print(_output_line(output))
    print_rest(len(accuracy.outputs), SHOWN_OUTPUTS, console)
    print_cost_of_half(accuracy.outputs, console)
    if accuracy.metric is not None:
        _print_metric(accuracy.metric, baseline, console)


def _print_metric(metric: MetricResult, baseline: str, console: Console) -> None:
    what = plural(metric.predictions, "prediction" if metric.output is not None else "sample")
    unit = f" {metric.unit}" if metric.unit else ""
    loss = "" if metric.loss is None else f", a loss of {metric.loss:.4g} {metric.loss_unit}".rstrip()
    known = "" if metric.baseline is None else f", {baseline} {metric.baseline:.6g}{unit}"
    console.print(f"  metric     {escape(metric.name)}: {metric.value:.6g}{unit}{known}{loss}, on all {what}")
    if metric.baseline_chance is not None:
        console.print(Text(f"  the {baseline} is no better than guessing: {escape(metric.baseline_chance)}", "yellow"))


def _measured_on(accuracy: Accuracy) -> Text:
    """Return which samples were used, and whether something was also chosen with them."""
    if accuracy.held_back:
        return Text(f"{plural(accuracy.samples, 'hold-out sample')} of the calibration data")
    if accuracy.validation is not None:
        return Text(f"{plural(accuracy.samples, 'sample')} of {escape(accuracy.validation)}")
    return Text(f"{plural(accuracy.samples, 'calibration sample')}: {accuracy.reason}", "yellow")


def _output_line(output: OutputAccuracy) -> Text:
    line = _output(output)
    if output.other_shapes:
        line.append(f"; the shape differs from the float model's in {plural(output.other_shapes, 'sample')}", "yellow")
    if output.float_nonfinite:
        line.append(f"; NaN or infinite in the float model: {plural(output.float_nonfinite, 'element')}", "yellow")
    return line


def _output(output: OutputAccuracy) -> Text:
    name = escape(output.name)
    if not output.finite:
        return Text(f"  output     {name}: NaN or infinity where the float model has none", "bold red")
    if output.exact:
        return Text(f"  output     {name}: equal")
    if output.sqnr_db is None:
        what = "not compared" if output.other_shapes else "the float output is zero everywhere, but this output is not"
        return Text(f"  output     {name}: {what}", "yellow")
    error = output.standard_error_db
    doubt = f" ± {error:.1f}" if error is not None and error >= DOUBT_DB else ""
    line = f"  output     {name}: {output.sqnr_db:.1f} dB{doubt}"
    if output.sqnr_db < LOST_DB:
        return Text(f"{line}, LOST: the error is larger than the output itself", "bold red")
    return Text(line)
