"""What stayed float and why, and tensors that no scale serves well."""

from qdqtool.reports.blocks import Block, Cell, Column, Lines, Table, scoped, text
from qdqtool.reports.page.section import Section
from qdqtool.reports.saved.stored_reports import StoredQuantize
from qdqtool.reports.saved.story import Story

SKIPPED = (Column("Node"), Column("Operator"), Column("Reason", prose=True))
DEGENERATE = (Column("Tensor"), Column("Condition"), Column("What was done", prose=True))


def blocks(story: Story) -> tuple[Block, ...]:
    """Return the nodes that stayed float; a sentence where every node could be quantized."""
    quantize = story.first(StoredQuantize)
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


SECTION = Section(60, "What stayed float", ("quantize",), blocks)
