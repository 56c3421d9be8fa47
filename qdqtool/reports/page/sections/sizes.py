"""Sizes of files and weights, and how many operators of each type are quantized."""

from collections.abc import Iterator

from qdqtool.engines.build.report import EngineReport
from qdqtool.errors import human_bytes
from qdqtool.jobs.inspect_report import Coverage, InspectReport
from qdqtool.jobs.quantize_report import QuantizeReport
from qdqtool.models.report import Work
from qdqtool.reports.blocks import Block, Cell, Column, Columns, Facts, number, percentage, tabulate, text
from qdqtool.reports.page.section import Section
from qdqtool.reports.saved.story import Story, bracketed

COVERAGE: Columns[Coverage] = {
    Column("Operator"): lambda each: text(each.op_type),
    Column("Nodes", numeric=True): lambda each: number(each.total, ","),
    Column("Quantized", numeric=True): lambda each: number(each.quantized, ","),
    Column("In part", numeric=True): lambda each: number(each.partly, ","),
}

_Row = tuple[str, Work | None, Work | None]
WORK: Columns[_Row] = {
    Column("Type"): lambda row: text(row[0]),
    Column("Work of the model", numeric=True, empty=""): lambda row: _macs(row[1], row[0]),
    Column("Weights of the model", numeric=True, empty=""): lambda row: _weights(row[1], row[0]),
    Column("Work of the engine", numeric=True, empty=""): lambda row: _macs(row[2], row[0]),
    Column("Weights of the engine", numeric=True, empty=""): lambda row: _weights(row[2], row[0]),
}


def blocks(story: Story) -> tuple[Block, ...]:
    """Return sizes in bytes, and the coverage of the quantized model from ``inspect``."""
    rows = tuple(_sizes(story))
    facts = (Facts(rows),) if rows else ()
    inspected = story.first(InspectReport)
    work = tuple(_work(story))
    if inspected is None or not inspected.coverage:
        return (*facts, *work)
    return (*facts, *work, tabulate(f"Quantized operators of {inspected.model}", COVERAGE, inspected.coverage))


def _work(story: Story) -> Iterator[Block]:
    """Yield the work of the model and of each engine that was built from it, by type."""
    quantize = story.first(QuantizeReport) or story.first(InspectReport)
    alone = quantize.work if quantize is not None else None
    builds: list[tuple[str, Work | None, Work | None]]
    builds = [(source, build.work, build.macs) for source, build in story.each(EngineReport)]
    for source, model, engine in builds or [("", alone, None)]:
        works = (model or alone, engine)
        kinds = dict.fromkeys(kind for each in works if each for kind in (*each.by_type, *each.weight_bytes))
        if kinds:
            rows = [(kind, *works) for kind in kinds]
            yield tabulate(f"Multiply-accumulates and bytes of weights by type{bracketed(source)}", WORK, rows)


def _macs(work: Work | None, kind: str) -> Cell:
    macs = work.by_type.get(kind, 0) if work is not None else 0
    return Cell(f"{macs:,} ({percentage(work.share(macs))})" if work is not None and macs else "", float(macs))


def _weights(work: Work | None, kind: str) -> Cell:
    size = work.weight_bytes.get(kind, 0) if work is not None else 0
    return Cell(f"{size:,}" if size else "", float(size))


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
    if inspected is not None and inspected.work is None:
        for kind, size in inspected.weight_bytes.items():
            yield f"Weights in {kind}", text(human_bytes(size))


SECTION = Section(80, "Sizes", ("quantize", "build", "inspect"), blocks)
