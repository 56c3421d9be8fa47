"""The reports of `bench` and `run` for a terminal."""

from collections.abc import Sequence
from itertools import chain

from rich.console import Console
from rich.text import Text

from qdqtool.engines.gpu.comparison import LayerComparison
from qdqtool.engines.gpu.report import BenchReport, EngineTimes, RunReport
from qdqtool.engines.gpu.runner import LayerTime
from qdqtool.errors import escape, plural
from qdqtool.reports.terminal import FittedTable, limit, named, print_rest, print_written
from qdqtool.samples.input_shapes import spell_shape

SHOWN = 10
"""Largest number of layers in a list."""
SHOWN_NODES = 3
"""Largest number of nodes of a layer that are named."""

_MEASURED = {
    "gpu": "between events on the GPU, without copies of inputs and outputs",
    "host": "on the host, with copies of inputs and outputs",
}


def render(report: BenchReport, console: Console) -> None:
    """Print the times, the clocks, the speedup, the slower layers and the verdict of the gate."""
    both = [each for each in (report.engine, report.against) if each is not None]
    console.print(Text.assemble(("bench ", "bold"), escape(report.engine.engine.file)))
    console.print(f"  with     {escape(str(report.engine.engine))}")
    console.print(f"  data     {_data(report)}")
    console.print(f"  times    {_MEASURED[report.engine.measured_by]}")
    console.print(f"  clocks   {_clocks(both, report.clocks_unknown)}")
    for warning in report.warnings:
        console.print(Text.assemble("  ", ("warning: ", "yellow"), escape(warning)))
    console.print()
    _print_times(both, console)
    console.print()
    _print_layers(report, console)
    _print_verdict(report, console)


def _data(report: BenchReport) -> str:
    source = "a random sample" if report.data.seed is not None else f"the first sample of {report.data.source}"
    shapes = ", ".join(f"{name}:{spell_shape(shape)}" for name, shape in report.data.shapes.items())
    return escape(f"{source}; {shapes or 'no inputs'}")


def _clocks(engines: Sequence[EngineTimes], reason: str) -> str:
    found = list(chain.from_iterable(each.clocks for each in engines))
    if not found:
        return f"not known: {escape(reason)}"
    sm, memory = [clock.sm for clock in found], [clock.memory for clock in found]
    return f"{_span(sm)} MHz, memory {_span(memory)} MHz, after each round"


def _span(values: Sequence[int]) -> str:
    return str(min(values)) if min(values) == max(values) else f"{min(values)} to {max(values)}"


def _print_times(engines: Sequence[EngineTimes], console: Console) -> None:
    table = FittedTable(
        "engine", "median ms", "90 %", "99 %", "fastest", "slowest", "runs", optional=("fastest", "runs")
    )
    for each in engines:
        times = each.times
        shown = [_ms(value) for value in (times.p50, times.p90, times.p99, times.min, times.max)]
        table.add_row(escape(each.engine.file), *shown, str(times.count))
    console.print(table)


def _print_layers(report: BenchReport, console: Console) -> None:
    if report.comparison is not None:
        _print_comparison(report.comparison, console, has_failed=not report.passed)
    elif report.engine.layers:
        _print_slowest(report.engine.layers, console)
    else:
        console.print(f"layers   not known: {report.engine.engine.library} does not report their times")


def _print_comparison(comparison: LayerComparison, console: Console, *, has_failed: bool) -> None:
    groups = comparison.slower
    heading = f"slower than in the other engine: {len(groups)} of {plural(len(comparison.groups), 'group')} of layers"
    if has_failed and not groups and comparison.groups:
        groups, heading = comparison.groups, f"{heading}; the groups with the smallest gain:"
    console.print(Text(heading, "bold"))
    if groups:
        table = FittedTable("ONNX nodes or layer", "ms", "other ms", "lost ms")
        for group in groups[: limit(console, SHOWN)]:
            name = named(group.nodes or group.layers, SHOWN_NODES)
            table.add_row(name, _ms(group.milliseconds), _ms(group.against_milliseconds), _ms(group.loss))
        console.print(table)
        print_rest(len(groups), SHOWN, console)
    for layers, where in ((comparison.unmatched, "this"), (comparison.against_unmatched, "the other")):
        total = sum(layer.milliseconds for layer in layers)
        if layers:
            names = named([layer.name for layer in layers], SHOWN_NODES)
            console.print(f"only in {where} engine: {_ms(total)} ms in {plural(len(layers), 'layer')}: {names}")


def _print_slowest(layers: Sequence[LayerTime], console: Console) -> None:
    slowest = sorted(layers, key=lambda layer: -layer.milliseconds)
    total = sum(layer.milliseconds for layer in layers)
    table = FittedTable("layer", "ms", "share", "ONNX nodes", optional=("ONNX nodes",))
    for layer in slowest[: limit(console, SHOWN)]:
        share = f"{layer.milliseconds / total:.1%}" if total else "-"
        table.add_row(escape(layer.name), _ms(layer.milliseconds), share, named(layer.nodes, SHOWN_NODES))
    console.print(table)
    print_rest(len(slowest), SHOWN, console)


def _print_verdict(report: BenchReport, console: Console) -> None:
    if report.speedup is None or report.against is None:
        return
    found = report.speedup
    console.print()
    console.print(
        f"{found.ratio:.3f} times as fast as {escape(report.against.engine.file)} "
        f"({found.lowest:.3f} to {found.highest:.3f} in single rounds)"
    )
    if report.gate is not None:
        word, style = ("passed", "green") if report.gate.passed else ("MISSED", "bold red")
        console.print(Text.assemble(f"gate {report.gate.gate}: ", (word, style), f", {report.gate.found}"))


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def render_run(report: RunReport, console: Console) -> None:
    """Print the engine, the GPU that ran it, and the written file."""
    console.print(Text.assemble(("run ", "bold"), escape(report.engine.file)))
    console.print(f"  with     {escape(str(report.engine))}")
    console.print(f"  data     {escape(report.data.source)}: {plural(report.data.samples, 'sample')}")
    for name, shape in report.outputs.items():
        console.print(f"  output   {escape(name)}: {spell_shape(shape)}")
    print_written(report.output, console)
