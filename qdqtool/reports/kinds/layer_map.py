"""Tables of the layers of an engine, with times if a profile was given."""

from collections.abc import Sequence
from math import fsum
from typing import TypeVar

from qdqtool.engines.report import LayerMap, LayerTotal, MappedLayer, TimedNode
from qdqtool.engines.tensorrt.kernels import UNKNOWN
from qdqtool.errors import plural
from qdqtool.reports.blocks import Cell, Column, Columns, Table, number, scoped, share, tabulate, text

_Row = TypeVar("_Row", MappedLayer, LayerTotal)
_NAMED = 2
"""Largest number of named nodes of one layer on a terminal."""


def layers(report: LayerMap) -> Table:
    """Return the table of all layers: the slowest first, or in the order in which they run without times."""
    columns: Columns[MappedLayer] = {
        Column("Layer"): lambda layer: text(layer.name),
        Column("ONNX nodes", spare=2, short="ONNX nodes", empty=""): lambda layer: _nodes(layer.nodes),
        Column("Kind", spare=1): lambda layer: _kind(layer.layer_type or UNKNOWN),
        Column("Computes in"): lambda layer: _kind(layer.computes if layer.conversion != "reformat" else "reformat"),
        Column("Reads"): lambda layer: _kind(", ".join(layer.reads) or UNKNOWN),
        Column("Writes"): lambda layer: _kind(", ".join(layer.writes) or UNKNOWN),
    }
    if report.milliseconds is None:
        return tabulate("Layers in the order in which they run", columns, report.layers)
    slowest = sorted(report.layers, key=lambda layer: -(layer.milliseconds or 0.0))
    return tabulate("Layers, the slowest first", _timed(columns, report), slowest)


def totals(report: LayerMap, caption: str, heading: str, found: tuple[LayerTotal, ...]) -> Table:
    """Return the table of layers and times by type."""
    columns: Columns[LayerTotal] = {
        Column(heading): lambda total: _kind(total.kind),
        Column("Layers", numeric=True): lambda total: number(total.layers, ","),
    }
    return tabulate(caption, _timed(columns, report), found)


def _timed(columns: Columns[_Row], report: LayerMap) -> Columns[_Row]:
    if report.milliseconds is None:
        return columns
    return {
        **columns,
        Column("Time", numeric=True, bars=True, short="ms"): lambda row: _time(row.milliseconds),
        Column("Share", numeric=True): lambda row: _share(row.milliseconds, report),
    }


NODES: Columns[TimedNode] = {
    Column("Node"): lambda node: text(scoped(node.name, node.graph)),
    Column("Operator", spare=1): lambda node: text(node.op_type),
    Column("Planned"): lambda node: text(node.planned),
    Column("Actual"): lambda node: _kind(node.actual, node.planned),
    Column("Layer", spare=2): lambda node: text(node.kernel),
    Column("Time of the layer", numeric=True, short="ms"): lambda node: _time(node.milliseconds),
    Column("Reason", prose=True, empty=""): lambda node: text(node.reason or ""),
}
"""The table of quantized nodes of the model."""


def summary(report: LayerMap) -> tuple[str, ...]:
    """Return what is known and unknown about the times, one sentence a line."""
    found = []
    if report.milliseconds is not None:
        found.append(f"{_time(report.milliseconds).text} in one inference, the mean of {report.runs:,}")
        untimed = sum(layer.milliseconds is None for layer in report.layers)
        if untimed:
            found.append(f"without a time: {untimed} of {plural(len(report.layers), 'layer')}")
    if report.unmatched:
        found.append(
            f"not found in the layer file: {plural(len(report.unmatched), 'timed layer')}, "
            f"{_time(report.unmatched_milliseconds).text}, which counts as unknown"
        )
    for kind, words in (("reformat", "reformats only"), ("fused", "conversions with other work")):
        of_kind = [layer for layer in report.layers if layer.conversion == kind]
        if of_kind:
            found.append(f"{words}: {plural(len(of_kind), 'layer')}{_cost(of_kind, report)}")
    if report.evidence == "none":
        found.append("types are unknown: the file has only names; trtexec needs --profilingVerbosity=detailed")
    return tuple(found)


def _cost(layers: Sequence[MappedLayer], report: LayerMap) -> str:
    if report.milliseconds is None:
        return ""
    known = [layer.milliseconds for layer in layers if layer.milliseconds is not None]
    time = fsum(known) if known else None
    return f", {_time(time).text}, {_share(time, report).text} of the time" if known else ", time unknown"


def _kind(found: str, planned: str | None = None) -> Cell:
    if UNKNOWN in found:
        return text(found, "unknown")
    return text(found, None if planned is None else "passed" if found == planned else "warning")


def _nodes(names: tuple[str, ...]) -> Cell:
    more = f", … ({len(names)} in all)" if len(names) > _NAMED else ""
    return Cell(", ".join(names), short=", ".join(names[:_NAMED]) + more)


def _time(milliseconds: float | None) -> Cell:
    return number(milliseconds, ".6g", "ms", short=".4g")


def _share(milliseconds: float | None, report: LayerMap) -> Cell:
    return share(None if milliseconds is None or not report.milliseconds else milliseconds / report.milliseconds)
