"""The inspect report for a terminal."""

from dataclasses import replace

from rich.console import Console
from rich.text import Text

from qdqtool.errors import escape, human_bytes, plural
from qdqtool.jobs.inspect_report import InspectReport, TensorInfo
from qdqtool.models.graph.index.types import Shape
from qdqtool.models.report import float32_rest
from qdqtool.reports.terminal import FittedTable
from qdqtool.reports.text._shared import print_work


def render(report: InspectReport, console: Console) -> None:
    """Print sizes and opsets, inputs and outputs, the Q/DQ inventory, coverage, and the tensors if there are any."""
    _head(report, console)
    console.print()
    console.print(_inventory(report) if report.groups else Text("no QuantizeLinear or DequantizeLinear", "yellow"))
    if report.coverage:
        console.print()
        console.print(_coverage(report))
    if report.work is not None and report.work.by_type:
        console.print()
        print_work(replace(report.work, weight_bytes={}), console)
        for rest in float32_rest(report.work, report.model) if len(report.work.by_type) > 1 else ():
            if rest.hint:
                console.print(f"  for TensorRT: {escape(rest.hint)} to half precision", soft_wrap=True)
    if report.tensors:
        console.print()
        console.print(_tensors(report.tensors))


def _head(report: InspectReport, console: Console) -> None:
    opsets = ", ".join(f"{escape(domain)} {version}" for domain, version in report.opset_imports.items())
    weights = ", ".join(f"{kind} {human_bytes(size)}" for kind, size in report.weight_bytes.items() if size)
    console.print(Text(escape(report.model), "bold"))
    console.print(f"  {human_bytes(report.bytes)}; stored tensors: {weights or 'none'}")
    if report.missing_data:
        files = ", ".join(map(escape, report.missing_data))
        console.print(f"  external data is missing: {files}; scales in these files are unknown", style="yellow")
    console.print(f"  opset {opsets}; IR version {report.ir_version}; producer {escape(report.producer) or 'unknown'}")
    scopes = f", {plural(report.scopes, 'body or function scope')}" if report.scopes else ""
    console.print(f"  {plural(report.nodes, 'node')}{scopes}")
    for kind, tensors in (("input", report.inputs), ("output", report.outputs)):
        for tensor in tensors:
            console.print(f"  {kind} {escape(tensor.name)}: {tensor.type}{shape_text(tensor.shape)}")


def _inventory(report: InspectReport) -> FittedTable:
    table = FittedTable(
        "stands for", "format", "granularity", "operator", "nodes", "scales", optional=("granularity", "scales")
    )
    for group in report.groups:
        scales = "not known" if report.missing_data else "not constant"
        if group.scale_min is not None and group.scale_max is not None:
            scales = " to ".join(dict.fromkeys(f"{scale:.4g}" for scale in (group.scale_min, group.scale_max)))
        table.add_row(group.kind, group.format, group.granularity, group.op_type, str(group.count), scales)
    return table


def _coverage(report: InspectReport) -> FittedTable:
    counts = ((row.total, row.quantized, row.partly, row.total - row.quantized - row.partly) for row in report.coverage)
    rows = ((row.op_type, *map(str, count)) for row, count in zip(report.coverage, counts, strict=True))
    return FittedTable("operator", "nodes", "quantized", "one side only", "float", rows=rows)


def _tensors(tensors: tuple[TensorInfo, ...]) -> FittedTable:
    table = FittedTable(
        "tensor", "scope", "kind", "type", "quantized", "consumers", optional=("scope", "consumers", "kind")
    )
    for tensor in tensors:
        table.add_row(
            escape(tensor.name),
            escape(tensor.graph),
            tensor.kind,
            f"{tensor.type}{shape_text(tensor.shape)}",
            "yes" if tensor.quantized else "",
            ", ".join(escape(label) for label in tensor.consumers),
        )
    return table


def shape_text(shape: Shape | None) -> str:
    """Return a shape as ``[1, 3, height, ?]``, or ``[...]`` if the rank is unknown."""
    if shape is None:
        return "[...]"
    return f"[{', '.join('?' if dim is None else escape(str(dim)) for dim in shape)}]"
