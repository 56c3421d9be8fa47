"""The map of an engine, and the layers of an engine that any tool built, for a terminal."""

from collections.abc import Sequence
from dataclasses import replace

from rich.console import Console
from rich.text import Text

from qdqtool.engines.build.engine_map import EngineMap
from qdqtool.engines.build.report import Conversion, Conversions, MappedKernel, UnknownConversion
from qdqtool.engines.report import LayerMap
from qdqtool.engines.tensorrt.kernels import UNKNOWN, KernelTensor
from qdqtool.errors import escape, human_bytes, human_count, plural
from qdqtool.reports.blocks import Table, tabulate
from qdqtool.reports.kinds import layer_map
from qdqtool.reports.terminal import FittedTable, fitted, named
from qdqtool.reports.text._shared import print_work
from qdqtool.reports.text.build import planned_and_achieved
from qdqtool.samples.calibration_note import CalibrationNote

SHOWN_NODES = 2
"""Largest number of named nodes of one kernel; JSON has all of them."""

SLOWEST = 50
"""How many layers are printed if their times are known."""
SHOWN = 1000
"""Largest number of rows of a table of layers: the layout of each row takes about 1 ms."""

_KINDS = {
    "quantize": "quantizes",
    "dequantize": "dequantizes",
    "quantize-dequantize": "quantizes and dequantizes between floats",
    "float-operands": "multiplies floats",
    "float-copy": "writes codes and the same values as floats",
}


def render(report: EngineMap, console: Console) -> None:
    """Print the engine, its kernels in order, the proven conversions, and conversions that only the GPU decides on."""
    _head(report, console)
    console.print()
    if not report.kernels:
        console.print("the builder gave no layer information: the kernels are unknown")
        return
    console.print(_table(report.kernels))
    console.print()
    if report.conversions is None:
        console.print("conversions between floats and codes are unknown: only an ahead-of-time layer dump shows them")
        return
    _conversions(report.conversions, console)


def _head(report: EngineMap, console: Console) -> None:
    targets = f"compute capability {', '.join(report.targets)}" if report.targets else "for the GPU that built it"
    console.print(Text(escape(report.engine), "bold"))
    console.print(f"  {human_bytes(report.bytes)}, built from {escape(report.model)}")
    console.print(f"  {escape(report.backend)} {escape(report.version)}; {escape(targets)}")
    if report.calibration is not None:
        console.print(f"  {_calibration(report.calibration)}")
    for kind, planned in report.planned.items():
        console.print(f"  {escape(planned_and_achieved(kind, planned, report.achieved.get(kind, 0)))}")
    if report.kernels:
        print_work(report.macs, console)
    console.print(f"  {plural(len(report.kernels), 'kernel')}, types from: {report.evidence}")


def _calibration(note: CalibrationNote) -> str:
    samples = f"{note.samples} random samples" if note.random else plural(note.samples, "sample")
    how = f"; {note.preprocessing.kind}: {note.preprocessing}" if note.preprocessing is not None else ""
    return f"calibrated with {samples} ({escape(note.method)}){how}"


def _table(kernels: Sequence[MappedKernel]) -> FittedTable:
    headings = ("kernel", "ONNX nodes", "reads", "constants", "writes", "multiplies", "bytes by type")
    return FittedTable(*headings, rows=map(_row, kernels), optional=("constants",))


def _row(kernel: MappedKernel) -> tuple[str, ...]:
    tensors = map(_types, (kernel.inputs, kernel.constants, kernel.outputs))
    return escape(kernel.name), named(kernel.nodes, SHOWN_NODES), *tensors, _products(kernel), _bytes(kernel.bytes)


def _types(tensors: Sequence[KernelTensor]) -> str:
    return ", ".join(dict.fromkeys(escape(tensor.type) for tensor in tensors))


def _products(kernel: MappedKernel) -> str:
    if kernel.computes is None:
        return ""
    count = human_count(kernel.macs) if kernel.macs is not None else "not known"
    return f"{escape(kernel.computes)} {count}"


def _bytes(sizes: dict[str, int] | None) -> str:
    if sizes is None:
        return "not known"
    return ", ".join(f"{escape(kind)} {human_bytes(size)}" for kind, size in sizes.items())


def _conversions(found: Conversions, console: Console) -> None:
    console.print(Text(f"{plural(len(found.proven), 'conversion')} proven", "bold"))
    for entry in found.proven:
        console.print(_proven(entry))
        _edit(entry, console)
    if found.unknown:
        text = f"{plural(len(found.unknown), 'float tensor')} unknown"
        console.print(Text.assemble((text, "bold"), ", not counted: the GPU decides at first use whether they exist"))
        for each in found.unknown:
            console.print(_unknown(each))


def _proven(entry: Conversion) -> Text:
    types = f"{', '.join(map(escape, entry.from_types))} -> {', '.join(map(escape, entry.to_types))}"
    node = f" for {escape(entry.node)}" if entry.node is not None else ""
    causes = ", ".join(map(escape, entry.qdq))
    return Text.assemble("  ", (escape(entry.kernel), "bold"), f" {_KINDS[entry.kind]}{node}: {types}, from {causes}")


def _edit(entry: Conversion, console: Console) -> None:
    if entry.edit is None:
        console.print(f"    no edit of the plan removes it: {entry.no_edit}")
        return
    console.print(f"    without it: quantize with `{escape(entry.edit.options)}`", soft_wrap=True)
    if entry.edit.shared is not None:
        consumers = ", ".join(map(escape, entry.edit.shared.consumers))
        console.print(f"    or: in a plan file, one entry of {escape(entry.edit.shared.tensor)} for {consumers}")


def _unknown(entry: UnknownConversion) -> Text:
    size = f", {human_bytes(entry.bytes)}" if entry.bytes is not None else ""
    writer = escape(entry.written_by) if entry.written_by is not None else "an unknown kernel"
    return Text(f"  {writer} -> {escape(entry.read_by)}: {escape(entry.type)}{size}")


def render_layers(report: LayerMap, console: Console) -> None:
    """Print the layers, the slowest first, then sums by type, conversions, and nodes that do not run as planned."""
    console.print(Text(escape(report.layer_file), "bold"))
    console.print(f"  {plural(len(report.layers), 'layer')}, types from: {report.evidence}")
    for line in layer_map.summary(report):
        console.print(f"  {line}")
    for kind, planned in report.planned.items():
        unknown = sum(node.planned == kind and node.actual == UNKNOWN for node in report.nodes)
        doubt = f"; unknown for {unknown}" if unknown else ""
        console.print(f"  {escape(planned_and_achieved(kind, planned, report.achieved.get(kind, 0)))}{doubt}")
    if report.model is not None and not report.nodes:
        console.print(f"  {escape(report.model)} plans no quantized node")
    _print(layer_map.layers(report), console, SHOWN if report.milliseconds is None else SLOWEST)
    _print(layer_map.totals(report, "Types", "Computes in", report.by_type), console)
    _print(layer_map.totals(report, "Conversions", "Conversion", report.conversions), console)
    _print(tabulate("Nodes", layer_map.NODES, [node for node in report.nodes if node.actual != node.planned]), console)


def _print(table: Table, console: Console, shown: int = SHOWN) -> None:
    if not table.rows:
        return
    console.print()
    console.print(fitted(replace(table, rows=table.rows[:shown])))
    if len(table.rows) > shown:
        console.print(f"  … and {len(table.rows) - shown:,} more (JSON has all)")
