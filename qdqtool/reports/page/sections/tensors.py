"""Every quantized tensor against that of the float model."""

from collections.abc import Iterator

from qdqtool.reports.blocks import Block, Cell, Table, scoped
from qdqtool.reports.kinds import check
from qdqtool.reports.page.section import Section
from qdqtool.reports.page.tensor_charts import charted, tensor_cell
from qdqtool.reports.saved.stored_reports import StoredCheck
from qdqtool.reports.saved.story import Story


def blocks(story: Story) -> tuple[Block, ...]:
    """Return a table for each check with a float model."""
    known = charted(story)
    return tuple(
        Table(f"Largest error in steps first [{source}]", check.TENSORS, tuple(_rows(checked, known)))
        for source, checked in story.each(StoredCheck)
        if checked.boundaries
    )


def _rows(checked: StoredCheck, known: frozenset[str]) -> Iterator[tuple[Cell, ...]]:
    for found in checked.boundaries:
        yield tensor_cell(scoped(found.tensor, found.graph), known), *check.tensor_row(found)[1:]


SECTION = Section(50, "Quantized tensors", ("check",), blocks)
