"""Sizes of files and weights, and how many operators of each type are quantized."""

from collections.abc import Iterator

from qdqtool.engines.build.report import EngineReport
from qdqtool.errors import human_bytes
from qdqtool.jobs.inspect_report import Coverage, InspectReport
from qdqtool.jobs.quantize_report import QuantizeReport
from qdqtool.reports.blocks import Block, Cell, Column, Columns, Facts, number, tabulate, text
from qdqtool.reports.page.section import Section
from qdqtool.reports.saved.story import Story, bracketed

COVERAGE: Columns[Coverage] = {
    Column("Operator"): lambda each: text(each.op_type),
    Column("Nodes", numeric=True): lambda each: number(each.total, ","),
    Column("Quantized", numeric=True): lambda each: number(each.quantized, ","),
    Column("In part", numeric=True): lambda each: number(each.partly, ","),
}


def blocks(story: Story) -> tuple[Block, ...]:
    """Return sizes in bytes, and the coverage of the quantized model from ``inspect``."""
    rows = tuple(_sizes(story))
    facts = (Facts(rows),) if rows else ()
    inspected = story.first(InspectReport)
    if inspected is None or not inspected.coverage:
        return facts
    return (*facts, tabulate(f"Quantized operators of {inspected.model}", COVERAGE, inspected.coverage))


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
        yield f"Engine{bracketed(source)}", text(f"{human_bytes(build.bytes)}{kept}")
    if inspected is not None:
        for kind, size in inspected.weight_bytes.items():
            yield f"Weights in {kind}", text(human_bytes(size))


SECTION = Section(80, "Sizes", ("quantize", "build", "inspect"), blocks)
