"""Unquantized nodes with their reasons, and tensors that no scale represents well."""

from __future__ import annotations

from qdqtool.jobs.inspect_report import Coverage, InspectReport
from qdqtool.jobs.quantize_report import QuantizeReport
from qdqtool.models.graph.report import NodeReason
from qdqtool.quantization.report import DegenerateTensor
from qdqtool.reports.blocks import Block, Column, Columns, Lines, Table, scoped, tabulate, text
from qdqtool.reports.page.difference import DIFFERENCE, Row, in_numbers
from qdqtool.reports.page.pair import Pair
from qdqtool.reports.page.section import Comparison, Section
from qdqtool.reports.saved.story import Story

SKIPPED: Columns[NodeReason] = {
    Column("Node"): lambda found: text(scoped(found.node, found.graph)),
    Column("Operator"): lambda found: text(found.op_type),
    Column("Reason", prose=True): lambda found: text(found.reason),
}
DEGENERATE: Columns[DegenerateTensor] = {
    Column("Tensor"): lambda found: text(scoped(found.tensor, found.graph)),
    Column("Condition"): lambda found: text(found.condition),
    Column("What was done", prose=True): lambda found: text(found.action),
}


def blocks(story: Story) -> tuple[Block, ...]:
    """Return the unquantized nodes, or a sentence if every quantizable node is quantized."""
    quantize = story.first(QuantizeReport)
    if quantize is None:
        return ()
    first: Block = Lines("Nodes", ("Every quantizable operator is quantized.",))
    if quantize.skipped:
        first = tabulate("Reasons", SKIPPED, quantize.skipped)
    if not quantize.degenerate:
        return (first,)
    return first, tabulate("Tensors that no scale serves well", DEGENERATE, quantize.degenerate)


COVERAGE = (
    Column("Operator"),
    Column("Quantized in A", numeric=True),
    Column("Quantized in B", numeric=True),
    Column(DIFFERENCE, numeric=True),
)


def compared(pair: Pair) -> tuple[Block, ...]:
    """Return the nodes that are unquantized in only one of the models, and the counts of ``inspect``."""
    return *_skipped(pair), *_coverage(pair)


def _skipped(pair: Pair) -> tuple[Block, ...]:
    first, second = pair.each(lambda story: story.first(QuantizeReport))
    if first is None or second is None:
        return ()
    found = (("A", _alone(first, second)), ("B", _alone(second, first)))
    tables = tuple(tabulate(f"Unquantized in {letter} only", SKIPPED, nodes) for letter, nodes in found if nodes)
    return tables or (Lines("Nodes", ("Both models leave the same nodes unquantized.",)),)


def _alone(one: QuantizeReport, other: QuantizeReport) -> list[NodeReason]:
    known = {(skip.graph, skip.node) for skip in other.skipped}
    return [skip for skip in one.skipped if (skip.graph, skip.node) not in known]


def _coverage(pair: Pair) -> tuple[Block, ...]:
    first, second = pair.each(lambda story: story.first(InspectReport))
    if first is None or second is None or not (first.groups and second.groups):
        return ()
    a, b = ({each.op_type: each for each in report.coverage} for report in (first, second))
    rows = tuple(Row(kind, in_numbers((_quantized(a.get(kind)), _quantized(b.get(kind))))).cells for kind in {**a, **b})
    return (Table("Quantized operators", COVERAGE, rows),) if rows else ()


def _quantized(found: Coverage | None) -> int:
    return found.quantized if found is not None else 0


SECTION = Section(
    60,
    "Unquantized nodes",
    ("quantize",),
    blocks,
    Comparison("Unquantized nodes", ("quantize for both models", "inspect for both models"), compared),
)
