"""The quantize report for a terminal."""

from collections import Counter

from rich.console import Console
from rich.text import Text

from qdqtool.accuracy.search.blame import FAIR_DB
from qdqtool.errors import plural
from qdqtool.jobs.advice import command
from qdqtool.jobs.quantize_report import QuantizeReport
from qdqtool.quantization.planning import modes
from qdqtool.quantization.preparation.metadata import CalibrationUsed
from qdqtool.reports.terminal import escape, limit, lists_all, print_rest
from qdqtool.reports.text._accuracy import print_accuracy, print_goal
from qdqtool.reports.text._calibration import (
    SHOWN,
    print_chosen,
    print_given,
    print_preparation,
    print_preprocessing,
    print_repeated,
    print_single,
    print_skipped,
)
from qdqtool.reports.text._noise import print_blame, print_pair_errors
from qdqtool.reports.text._pairs import print_counts, print_files, print_high_precision, print_opset, print_pairs


def render(report: QuantizeReport, console: Console) -> None:
    """Print how the model was made and what was not quantized; then files, accuracy and verdict, to stay in sight."""
    _print_making(report, console)
    print_skipped(report.skipped, console)
    print_pairs(report.quantized, console)
    if _has_details(report, console):
        console.print()
    _print_result(report, console)


def _has_details(report: QuantizeReport, console: Console) -> bool:
    """Whether anything is printed in front of the result."""
    made = (report.calibration, report.preparation, report.inlined, report.corrected, report.separated)
    left = (report.degenerate, report.high_precision, report.skipped, lists_all(console) and report.quantized)
    return any((*made, *left))


def _print_making(report: QuantizeReport, console: Console) -> None:
    """Print what was done to the model besides putting pairs in."""
    if report.calibration is not None:
        _print_calibration(report.calibration, console)
    print_preparation(report.preparation, console)
    for found in report.inlined:
        console.print(
            f"function {escape(found.function)} inlined: {plural(found.calls, 'call')} with ranges of their own"
        )
    if report.corrected:
        console.print(f"biases corrected behind {plural(len(report.corrected), 'weight')}")
    if report.separated:
        count = plural(len(report.separated), "product")
        console.print(f"{count} for queries, keys and values at once cut in three, to run quantized")
    _print_degenerate(report, console)
    print_high_precision(report.high_precision, console)


def _print_result(report: QuantizeReport, console: Console) -> None:
    """Print what came of it, so that the verdict comes last."""
    print_counts(report.quantized, report.model, console)
    _print_files(report, console)
    print_opset(report.opset_before, report.opset_after, console)
    if report.existing == "keep" and not report.quantized:
        console.print("nothing was left to quantize: the model is written as it is")
    else:
        print_accuracy(report.accuracy, console, "model as given" if report.existing == "keep" else "float model")
    _print_noise(report, console)
    if report.goal is not None:
        print_goal(report.goal, console)
    else:
        _print_way_to_better(report, console)
    console.print()
    _print_verdict(report, console)


def _print_noise(report: QuantizeReport, console: Console) -> None:
    """Print the layers that make the noise at the worst output; where none is known, the pairs with most noise."""
    if report.blame is not None:
        print_blame(report.blame, console)
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
        console.print(f"the plan keeps the scales of {lost} but not the codes that data chose", style="yellow")


def _print_way_to_better(report: QuantizeReport, console: Console) -> None:
    """Print how to find the layers that cost most, where an output keeps little."""
    used, outputs = report.calibration, () if report.accuracy is None else report.accuracy.outputs
    if used is None or used.random or not any(each.sqnr_db is not None and each.sqnr_db < FAIR_DB for each in outputs):
        return
    data = "DATA" if used.from_file or used.given is not None else used.source
    told = escape(command("sensitivity", report.model, "--calib-data", data))
    console.print(
        f"what each layer costs: `{told}`, with the same options; `--min-sqnr DB` leaves the fewest in float",
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
        console.print(f"{plural(used.held_back, 'sample')} of {source} held back, only to measure")
    print_repeated(used.samples + used.held_back, used.repeated, console)
    if used.method not in _WITHOUT_RANGES:
        print_single(used.samples, used.repeated, console)
    if used.random:
        console.print(
            f"RANDOM calibration, seed {used.seed}: it says nothing about real inputs",
            style="yellow",
        )
    for what in used.forced_for:
        console.print(f"FORCED: {_FORCED[what]}", style="yellow")


_WITHOUT_RANGES = {
    "gptq": "codes of weights chosen (gptq) over ",
    "nearest": "codes of weights are the nearest; prepared and measured with ",
}

_FORCED = {
    "model": "the ranges were found on another model",
    "data": "the ranges were found on other data than the accuracy was measured with",
    "samples": "the ranges are of a part of the samples",
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
        scope = f" in {escape(found.graph)}" if found.graph else ""
        who = f"{found.scales} of {found.of} {parts} " if found.of > 1 else ""
        verb = "holds" if found.of == 1 or found.scales == 1 else "hold"
        what = f"{who}{verb} {_CONDITIONS[found.condition]}; {escape(found.action)}"
        console.print(f"note     {found.kind} {escape(found.tensor)}{scope}: {what}")
    print_rest(len(report.degenerate), SHOWN, console)


def _print_verdict(report: QuantizeReport, console: Console) -> None:
    by_severity = Counter[str](finding.severity for finding in report.findings)
    verdict = ("fail", "bold red") if by_severity["error"] else ("pass", "bold green")
    severities = ("error", "warning", "info") if by_severity["error"] else ("warning", "info")
    counts = (plural(by_severity[severity], severity) for severity in severities)
    console.print(Text.assemble("validate for ", report.target, ": ", verdict, f" ({', '.join(counts)})"))
    shown = [finding for level in ("error", "warning") for finding in report.findings if finding.severity == level]
    for finding in shown[: limit(console, SHOWN)]:
        where = f" {escape(finding.node)}:" if finding.node else ""
        color = "red" if finding.severity == "error" else "yellow"
        console.print(Text.assemble("  ", (finding.code, color), f"{where} {escape(finding.message)}"))
    print_rest(len(shown), SHOWN, console)
