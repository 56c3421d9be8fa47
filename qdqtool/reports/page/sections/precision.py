"""The planned and the actual precision of each node, with its kernel."""

from qdqtool.engines.build.report import EngineReport, RefusedReport
from qdqtool.engines.report import NodePrecision
from qdqtool.reports.blocks import Block, Cell, Column, Columns, Facts, Lines, State, scoped, tabulate, text
from qdqtool.reports.page.section import Section
from qdqtool.reports.saved.story import Story, bracketed

COLUMNS: Columns[NodePrecision] = {
    Column("Node"): lambda node: text(scoped(node.name, node.graph)),
    Column("Operator"): lambda node: text(node.op_type),
    Column("Planned"): lambda node: text(node.planned),
    Column("Actual"): lambda node: text(node.actual, _state(node)),
    Column("Kernel"): lambda node: text(node.kernel),
    Column("Reason", prose=True, empty=""): lambda node: text(node.reason or ""),
}


def blocks(story: Story) -> tuple[Block, ...]:
    """Return counts and nodes of each build, and the reasons of refusals."""
    built = tuple(block for source, build in story.each(EngineReport) for block in _built(source, build))
    refused = tuple(
        Lines(
            f"Refused{bracketed(source)}",
            (build.message, *(_refusal(each.message, each.node) for each in build.refusals)),
        )
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
    named = (("Report", text(source)),) if source else ()
    facts = Facts((*named, ("Evidence", text(build.evidence)), *counts))
    nodes = sorted(build.nodes, key=lambda node: node.planned == node.actual)
    table = tabulate("Nodes, those with another precision first", COLUMNS, nodes)
    warnings = (Lines("Warnings of the builder", build.warnings),) if build.warnings else ()
    return (facts, *((table,) if nodes else ()), *warnings)


def _count(achieved: int, planned: int, evidence: str) -> Cell:
    if evidence == "none":
        return Cell(f"unknown for {planned} nodes", None, "unknown")
    state: State = "passed" if achieved >= planned else "warning"
    return Cell(f"{achieved} of {planned} nodes", float(achieved), state)


def _state(node: NodePrecision) -> State:
    if node.planned == node.actual:
        return "passed"
    return "unknown" if node.actual == "unknown" else "warning"


SECTION = Section(70, "Planned and actual precision", ("build",), blocks)
