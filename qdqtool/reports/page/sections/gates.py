"""The gates of ``check`` and ``build``, missed gates first."""

from collections.abc import Iterator
from operator import itemgetter

from qdqtool.accuracy.checking.report import CheckReport
from qdqtool.engines.build.report import EngineReport
from qdqtool.reports.blocks import Block, Cell, Column, tabulate, text
from qdqtool.reports.kinds import gates
from qdqtool.reports.page.section import Section
from qdqtool.reports.saved.story import Story

COLUMNS = (*gates.COLUMNS, Column("Report", empty=""))


def blocks(story: Story) -> tuple[Block, ...]:
    """Return a table of the gates, missed gates first."""
    rows = sorted(_rows(story), key=lambda row: str(row[1].sort))
    return (tabulate("Gates", {column: itemgetter(at) for at, column in enumerate(COLUMNS)}, rows),) if rows else ()


def _rows(story: Story) -> Iterator[tuple[Cell, ...]]:
    for source, checked in story.each(CheckReport):
        yield from ((*gates.of_check(gate), text(source)) for gate in checked.gates)
    for source, built in story.each(EngineReport):
        yield from ((*gates.of_build(gate), text(source)) for gate in built.gates)


SECTION = Section(10, "Gates", ("check", "build"), blocks)
