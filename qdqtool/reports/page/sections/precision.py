"""Planned against actual precision of each node, with its kernel."""

from qdqtool.engines.build.report import EngineReport, RefusedReport
from qdqtool.engines.tensorrt.builder import NodePrecision
from qdqtool.reports.blocks import Block, Cell, Column, Facts, Lines, State, Table, scoped, text
from qdqtool.reports.page.section import Section
from qdqtool.reports.saved.story import Story

COLUMNS = (
    Column("Node"),
    Column("Operator"),
    Column("Planned"),
    Column("Actual"),
    Column("Kernel"),
    Column("Reason", prose=True),
)


def blocks(story: Story) -> tuple[Block, ...]:
    """Return counts and nodes of each build, and the reasons of refusals."""
    built = tuple(block for source, build in story.each(EngineReport) for block in _built(source, build))
    refused = tuple(
        Lines(f"Refused [{source}]", (build.message, *(_refusal(each.message, each.node) for each in build.refusals)))
        for source, build in story.each(RefusedReport)
    )
    return (*refused, *built)


def _refusal(message: str, node: str | None) -> str:
    return f"{node}: {message}" if node else message


def _built(source: str, build: EngineReport) -> tuple[Block, ...]:
    counts = tuple(
        (f"Planned {kind}", _count(build.achieved.get(kind, 0), planned, build.evidence))
        for kind, planned in build.planned.items()
    )
    facts = Facts((("Report", text(source)), ("Evidence", text(build.evidence)), *counts))
    nodes = sorted(build.nodes, key=lambda node: node.planned == node.actual)
    table = Table("Nodes, those with another precision first", COLUMNS, tuple(map(_row, nodes)))
    warnings = (Lines("Warnings of the builder", build.warnings),) if build.warnings else ()
    return (facts, *((table,) if nodes else ()), *warnings)


def _count(achieved: int, planned: int, evidence: str) -> Cell:
    if evidence == "none":
        return Cell(f"unknown for {planned} nodes", None, "unknown")
    state: State = "passed" if achieved >= planned else "warning"
    return Cell(f"{achieved} of {planned} nodes", float(achieved), state)


def _row(node: NodePrecision) -> tuple[Cell, ...]:
    state: State = "passed" if node.planned == node.actual else "unknown" if node.actual == "unknown" else "warning"
    return (
        text(scoped(node.name, node.graph)),
        text(node.op_type),
        text(node.planned),
        text(node.actual, state),
        text(node.kernel),
        text(node.reason or ""),
    )


SECTION = Section(70, "Planned and actual precision", ("build",), blocks)
