"""Every quantized tensor against that of the float model."""

from qdqtool.reports.page.content import Block, Cell, Column, Table, decibels, number, scoped, share, text
from qdqtool.reports.page.section import Section
from qdqtool.reports.page.tensor_charts import charted, tensor_cell
from qdqtool.reports.saved.stored_parts import StoredBoundary
from qdqtool.reports.saved.stored_reports import StoredCheck
from qdqtool.reports.saved.story import Story

COLUMNS = (
    Column("Tensor"),
    Column("Kind"),
    Column("Format"),
    Column("Scales"),
    Column("SQNR", numeric=True, bars=True),
    Column("Clipped", numeric=True, bars=True),
    Column("Largest error in steps", numeric=True, bars=True),
    Column("Mean error in steps", numeric=True, bars=True),
)


def blocks(story: Story) -> tuple[Block, ...]:
    """Return a table for each check with a float model."""
    known = charted(story)
    return tuple(
        Table(
            f"Largest error in steps first [{source}]", COLUMNS, tuple(_row(each, known) for each in check.boundaries)
        )
        for source, check in story.each(StoredCheck)
        if check.boundaries
    )


def _row(found: StoredBoundary, known: frozenset[str]) -> tuple[Cell, ...]:
    return (
        tensor_cell(scoped(found.tensor, found.graph), known),
        text(found.kind),
        text(found.format),
        text(found.granularity),
        decibels(found.sqnr_db, exact=found.max_steps == 0),
        share(found.clipped / found.elements if found.elements else None),
        number(found.max_steps, ".3g"),
        number(found.mean_steps, ".3g"),
    )


SECTION = Section(50, "Quantized tensors", ("check",), blocks)
