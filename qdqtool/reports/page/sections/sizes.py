"""Sizes of files and weights, and how many operators of each type are quantized."""

from collections.abc import Iterator

from qdqtool.engines.build.report import EngineReport
from qdqtool.errors import human_bytes
from qdqtool.jobs.inspect_report import InspectReport
from qdqtool.jobs.quantize_report import QuantizeReport
from qdqtool.reports.blocks import Block, Cell, Column, Facts, Table, number, text
from qdqtool.reports.page.section import Section
from qdqtool.reports.saved.story import Story

COVERAGE = (
    Column("Operator"),
    Column("Nodes", numeric=True),
    Column("Quantized", numeric=True),
    Column("In part", numeric=True),
)


def blocks(story: Story) -> tuple[Block, ...]:
    """Return sizes in bytes, and the coverage that ``inspect`` reports of the quantized model."""
    rows = tuple(_sizes(story))
    facts = (Facts(rows),) if rows else ()
    inspected = story.first(InspectReport)
    if inspected is None or not inspected.coverage:
        return facts
    coverage = tuple(
        (text(each.op_type), number(each.total, ","), number(each.quantized, ","), number(each.partly, ","))
        for each in inspected.coverage
    )
    return (*facts, Table(f"Quantized operators of {inspected.model}", COVERAGE, coverage))


def _sizes(story: Story) -> Iterator[tuple[str, Cell]]:
    quantize, inspected = story.first(QuantizeReport), story.first(InspectReport)
    if quantize is not None:
        yield "Float model", text(human_bytes(quantize.sizes.before))
        smaller = f", {quantize.sizes.after / quantize.sizes.before:.1%} of it" if quantize.sizes.before else ""
        yield "Quantized model", text(f"{human_bytes(quantize.sizes.after)}{smaller}")
    elif inspected is not None:
        yield inspected.model, text(human_bytes(inspected.bytes))
    for source, build in story.each(EngineReport):
        kept = "" if build.engine is not None else "; not kept, since a gate was missed"
        yield f"Engine [{source}]", text(f"{human_bytes(build.bytes)}{kept}")
    if inspected is not None:
        for kind, size in inspected.weight_bytes.items():
            yield f"Weights in {kind}", text(human_bytes(size))


SECTION = Section(80, "Sizes", ("quantize", "build", "inspect"), blocks)
