"""What sections of the page say, as plain lists; columns are found by their headings, so that more may be added."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from qdqtool.reports.blocks import Block, Cell, Facts, Lines, State, Table
from qdqtool.reports.saved.reading import SavedReport, read_reports
from qdqtool.reports.saved.story import Story, join
from support.saved_reports import save

Section = Callable[[Story], tuple[Block, ...]]


def blocks_of(section: Section, folder: Path, **documents: Any) -> tuple[Block, ...]:
    """The blocks that a section makes of reports, each saved as ``NAME.json``."""
    return section(join(read_reports(save(folder, **documents))))


def of_failures(section: Section, *failures: SavedReport) -> tuple[Block, ...]:
    """The blocks that a section makes of commands that ended without a report."""
    return section(join(failures))


def table(blocks: tuple[Block, ...], caption: str = "") -> Table:
    """The only table whose caption begins so. Each of its rows has a cell in each column, numbers where it has them."""
    (found,) = (block for block in blocks if isinstance(block, Table) and block.caption.startswith(caption))
    assert {len(row) for row in found.rows} <= {len(found.columns)}
    for at, each in enumerate(found.columns):
        sorts = [row[at].sort for row in found.rows if row[at].sort is not None]
        assert {isinstance(sort, float) for sort in sorts} <= {each.numeric}, each.title
    return found


def column(found: Table, title: str) -> list[Cell]:
    """The cells of a column from top to bottom."""
    at = [each.title for each in found.columns].index(title)
    return [row[at] for row in found.rows]


def texts(found: Table, title: str) -> list[str]:
    """What is shown in a column."""
    return [cell.text for cell in column(found, title)]


def states(found: Table, title: str) -> list[State | None]:
    """The colours of a column."""
    return [cell.state for cell in column(found, title)]


def sentences(found: Table) -> list[str]:
    """Headings of the columns that get the width of sentences."""
    return [each.title for each in found.columns if each.prose]


def has_bars(found: Table) -> bool:
    """Whether the chart offers every column of numbers, and no other."""
    return all(each.bars == each.numeric for each in found.columns)


def facts(blocks: tuple[Block, ...]) -> list[tuple[str, str, State | None]]:
    """Name, text and colour of every fact."""
    return [(name, cell.text, cell.state) for block in blocks if isinstance(block, Facts) for name, cell in block.rows]


def lines(blocks: tuple[Block, ...]) -> list[tuple[str, tuple[str, ...]]]:
    """Heading and sentences of every block of lines."""
    return [(block.heading, block.lines) for block in blocks if isinstance(block, Lines)]
