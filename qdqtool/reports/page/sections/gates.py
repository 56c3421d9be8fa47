"""The gates of ``check`` and ``build``, missed ones first."""

from collections.abc import Iterator

from qdqtool.reports.page.content import Block, Cell, Column, Table, text
from qdqtool.reports.page.section import Section
from qdqtool.reports.saved.stored_parts import StoredGate
from qdqtool.reports.saved.stored_reports import StoredBuild, StoredCheck
from qdqtool.reports.saved.story import Story

COLUMNS = (
    Column("Gate"),
    Column("State"),
    Column("Requires", prose=True),
    Column("Found", prose=True),
    Column("Report"),
)


def blocks(story: Story) -> tuple[Block, ...]:
    """Return a table of the gates, missed ones first."""
    rows = sorted(_rows(story), key=lambda row: str(row[1].sort))
    return (Table("Gates", COLUMNS, tuple(rows)),) if rows else ()


def _rows(story: Story) -> Iterator[tuple[Cell, ...]]:
    for source, check in story.each(StoredCheck):
        for gate in check.gates:
            found = "; ".join((gate.detail, *gate.failures, *gate.warnings))
            yield text(gate.name), _state(gate), text(gate.requires), text(found), text(source)
    for source, build in story.each(StoredBuild):
        for asked in build.gates:
            state = Cell("passed", "2", "passed") if asked.passed else Cell("FAILED", "0", "failed")
            yield text(asked.gate), state, text("precision of the engine"), text(asked.found), text(source)


def _state(gate: StoredGate) -> Cell:
    if not gate.passed:
        return Cell("FAILED", "0", "failed")
    return Cell("warning", "1", "warning") if gate.warnings else Cell("passed", "2", "passed")


SECTION = Section(10, "Gates", ("check", "build"), blocks)
