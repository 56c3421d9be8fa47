"""The accuracy of each output against the float model."""

from collections.abc import Iterator

from qdqtool.page.content import Block, Cell, Column, Lines, Table, decibels, number, share, text
from qdqtool.page.section import Section
from qdqtool.page.stored_parts import StoredOutput
from qdqtool.page.stored_reports import StoredCheck, StoredQuantize
from qdqtool.page.story import Story

CHECKED = (
    Column("Output"),
    Column("SQNR", numeric=True),
    Column("Cosine", numeric=True),
    Column("Largest difference", numeric=True),
    Column("Equal elements", numeric=True),
    Column("NaN or infinite", numeric=True),
    Column("Report"),
)
MEASURED = (
    Column("Output"),
    Column("SQNR", numeric=True),
    Column("Standard error", numeric=True),
    Column("Finite"),
)


def blocks(story: Story) -> tuple[Block, ...]:
    """Return the outputs as ``check`` and ``quantize`` measured them, worst first."""
    compared = [
        (source, output)
        for source, check in story.each(StoredCheck)
        if check.baseline is not None
        for output in check.outputs
    ]
    compared.sort(key=lambda found: _badness(found[1]))
    rows = tuple(_row(source, output) for source, output in compared)
    tables = (Table("Outputs against the float model, worst first", CHECKED, rows),) if rows else ()
    return (*tables, *_measured(story), *_warnings(story))


def _badness(output: StoredOutput) -> float:
    if output.exact:
        return float("inf")
    return output.sqnr_db if output.sqnr_db is not None else float("-inf")


def _row(source: str, output: StoredOutput) -> tuple[Cell, ...]:
    agreement = 1.0 if output.exact else output.agreement
    is_float = output.agreement is None
    return (
        text(output.name),
        decibels(output.sqnr_db, exact=bool(output.exact)) if is_float else Cell("not a float output"),
        number(output.cosine, ".8f") if is_float else Cell("not a float output"),
        number(output.max_abs),
        share(agreement) if agreement is not None else Cell("not exact"),
        Cell(str(output.nonfinite), float(output.nonfinite), "warning" if output.nonfinite else None),
        text(source),
    )


def _measured(story: Story) -> Iterator[Block]:
    quantize = story.first(StoredQuantize)
    if quantize is None or quantize.accuracy is None:
        return
    if quantize.accuracy.problem:
        yield Lines("Accuracy that quantize measured", (f"Nothing was measured: {quantize.accuracy.problem}",))
    rows = tuple(
        (
            text(output.name),
            decibels(output.sqnr_db, exact=output.exact),
            number(output.standard_error_db, ".2f", "dB"),
            text("yes") if output.finite else Cell("no", "no", "failed"),
        )
        for output in quantize.accuracy.outputs
    )
    if rows:
        part = "held-back" if quantize.accuracy.held_back else "calibration"
        yield Table(f"The same as quantize measured it on {quantize.accuracy.samples} {part} samples", MEASURED, rows)


def _warnings(story: Story) -> Iterator[Block]:
    lines = tuple(f"{warning} [{source}]" for source, check in story.each(StoredCheck) for warning in check.warnings)
    if lines:
        yield Lines("Warnings of the check", lines)


SECTION = Section(30, "Accuracy of the outputs", ("check", "quantize"), blocks)
