"""Nodes that stayed float in one of two models only, and how many operators of each type are quantized."""

from __future__ import annotations

from qdqtool.reports.blocks import Block, Column, Lines, Table, scoped, text
from qdqtool.reports.page.comparison._cells import DIFFERENCE, Row, in_numbers
from qdqtool.reports.page.pair import Pair
from qdqtool.reports.page.section import Section
from qdqtool.reports.saved.stored_parts import StoredCoverage, StoredSkip
from qdqtool.reports.saved.stored_reports import StoredInspect, StoredQuantize

SKIPPED = (Column("Node"), Column("Operator"), Column("Reason", prose=True))
COVERAGE = (
    Column("Operator"),
    Column("Quantized in A", numeric=True),
    Column("Quantized in B", numeric=True),
    Column(DIFFERENCE, numeric=True),
)


def blocks(pair: Pair) -> tuple[Block, ...]:
    """Return the nodes that only one model leaves in float, as ``quantize`` says, and the counts of ``inspect``."""
    return *_skipped(pair), *_coverage(pair)


def _skipped(pair: Pair) -> tuple[Block, ...]:
    first, second = pair.each(lambda story: story.first(StoredQuantize))
    if first is None or second is None:
        return ()
    found = (("A", _alone(first, second)), ("B", _alone(second, first)))
    tables = tuple(_table(letter, nodes) for letter, nodes in found if nodes)
    return tables or (Lines("Nodes", ("Both models leave the same nodes in float.",)),)


def _alone(one: StoredQuantize, other: StoredQuantize) -> list[StoredSkip]:
    known = {(skip.graph, skip.node) for skip in other.skipped}
    return [skip for skip in one.skipped if (skip.graph, skip.node) not in known]


def _table(letter: str, nodes: list[StoredSkip]) -> Table:
    rows = tuple((text(scoped(each.node, each.graph)), text(each.op_type), text(each.reason)) for each in nodes)
    return Table(f"Left in float in {letter} only", SKIPPED, rows)


def _coverage(pair: Pair) -> tuple[Block, ...]:
    first, second = pair.each(lambda story: story.first(StoredInspect))
    if first is None or second is None or not (first.groups and second.groups):
        return ()
    a, b = ({each.op_type: each for each in report.coverage} for report in (first, second))
    rows = tuple(Row(kind, in_numbers((_quantized(a.get(kind)), _quantized(b.get(kind))))).cells for kind in {**a, **b})
    return (Table("Quantized operators", COVERAGE, rows),) if rows else ()


def _quantized(found: StoredCoverage | None) -> int:
    return found.quantized if found is not None else 0


SECTION = Section(50, "What stayed float", ("quantize of both models", "inspect of both models"), blocks)
