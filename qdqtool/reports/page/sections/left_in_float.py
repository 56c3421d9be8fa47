"""What stayed float and why, and tensors that no scale serves well."""

from __future__ import annotations

from qdqtool.jobs.inspect_report import Coverage, InspectReport
from qdqtool.jobs.quantize_report import QuantizeReport
from qdqtool.models.graph.scope import NodeReason
from qdqtool.reports.blocks import Block, Cell, Column, Lines, Table, scoped, text
from qdqtool.reports.page.difference import DIFFERENCE, Row, in_numbers
from qdqtool.reports.page.pair import Pair
from qdqtool.reports.page.section import Comparison, Section
from qdqtool.reports.saved.story import Story

DEGENERATE = (Column("Tensor"), Column("Condition"), Column("What was done", prose=True))


def blocks(story: Story) -> tuple[Block, ...]:
    """Return the nodes that stayed float; a sentence where every node could be quantized."""
    quantize = story.first(QuantizeReport)
    if quantize is None:
        return ()
    if not quantize.skipped:
        first: Block = Lines("Nodes", ("Every quantizable operator is quantized.",))
    else:
        rows = tuple((_name(skip.node, skip.graph), text(skip.op_type), text(skip.reason)) for skip in quantize.skipped)
        first = Table("Nodes that stayed float", SKIPPED, rows)
    if not quantize.degenerate:
        return (first,)
    odd = tuple(
        (_name(each.tensor, each.graph), text(each.condition), text(each.action)) for each in quantize.degenerate
    )
    return first, Table("Tensors that no scale serves well", DEGENERATE, odd)


def _name(label: str, graph: str) -> Cell:
    return text(scoped(label, graph))


SKIPPED = (Column("Node"), Column("Operator"), Column("Reason", prose=True))
COVERAGE = (
    Column("Operator"),
    Column("Quantized in A", numeric=True),
    Column("Quantized in B", numeric=True),
    Column(DIFFERENCE, numeric=True),
)


def compared(pair: Pair) -> tuple[Block, ...]:
    """Return the nodes that only one model leaves in float, as ``quantize`` says, and the counts of ``inspect``."""
    return *_skipped(pair), *_coverage(pair)


def _skipped(pair: Pair) -> tuple[Block, ...]:
    first, second = pair.each(lambda story: story.first(QuantizeReport))
    if first is None or second is None:
        return ()
    found = (("A", _alone(first, second)), ("B", _alone(second, first)))
    tables = tuple(_table(letter, nodes) for letter, nodes in found if nodes)
    return tables or (Lines("Nodes", ("Both models leave the same nodes in float.",)),)


def _alone(one: QuantizeReport, other: QuantizeReport) -> list[NodeReason]:
    known = {(skip.graph, skip.node) for skip in other.skipped}
    return [skip for skip in one.skipped if (skip.graph, skip.node) not in known]


def _table(letter: str, nodes: list[NodeReason]) -> Table:
    rows = tuple((text(scoped(each.node, each.graph)), text(each.op_type), text(each.reason)) for each in nodes)
    return Table(f"Left in float in {letter} only", SKIPPED, rows)


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
    "What stayed float",
    ("quantize",),
    blocks,
    Comparison("What stayed float", ("quantize of both models", "inspect of both models"), compared),
)
