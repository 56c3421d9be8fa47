"""Every quantized tensor compared with the float model."""

from __future__ import annotations

from qdqtool.accuracy.checking.report import BoundaryResult, CheckReport
from qdqtool.errors import plural
from qdqtool.reports.blocks import Block, Cell, Column, Columns, Lines, Table, scoped, tabulate, text
from qdqtool.reports.kinds import check
from qdqtool.reports.page.difference import DIFFERENCE, NONE, in_decibels, in_shares
from qdqtool.reports.page.fairness import CheckPair, check_pairs
from qdqtool.reports.page.pair import Pair
from qdqtool.reports.page.section import Comparison, Section
from qdqtool.reports.page.tensor_charts import charted, tensor_cell
from qdqtool.reports.saved.story import Story, bracketed


def blocks(story: Story) -> tuple[Block, ...]:
    """Return a table for each check with a float model."""
    known = charted(story)
    columns: Columns[BoundaryResult] = {
        **check.TENSORS,
        check.TENSOR: lambda found: tensor_cell(scoped(found.tensor, found.graph), known),
    }
    return tuple(
        tabulate(f"Largest error in steps first{bracketed(source)}", columns, checked.boundaries)
        for source, checked in story.each(CheckReport)
        if checked.boundaries
    )


COMPARED = (
    Column("Tensor"),
    Column("Kind"),
    Column("Format in A"),
    Column("Format in B"),
    Column("SQNR of A", numeric=True),
    Column("SQNR of B", numeric=True),
    Column(f"SQNR, {DIFFERENCE}", numeric=True, bars=True),
    Column("Clipped in A", numeric=True),
    Column("Clipped in B", numeric=True),
    Column(f"Clipped, {DIFFERENCE}", numeric=True, bars=True),
)
_DIFFERENCES = (6, 9)
_Place = tuple[str, str]


def compared(pair: Pair) -> tuple[Block, ...]:
    """Return, for each pair of checks, a table of the tensors that both models quantize, and a list of the others."""
    return tuple(block for found in check_pairs(pair) for block in _of(found))


def _of(pair: CheckPair) -> tuple[Block, ...]:
    a, b = _tensors(pair.a), _tensors(pair.b)
    both = [_row(a[place], b[place], is_fair=not pair.why) for place in a if place in b]
    rows = [row for row in both if pair.why or _differs(row)]
    rows.sort(key=lambda row: [-abs(value) if isinstance(value := row[at].sort, float) else 0.0 for at in _DIFFERENCES])
    alone = tuple(
        f"{plural(len(names), 'tensor')} in {letter} only: {', '.join(names)}"
        for letter, names in (("A", _missing(a, b)), ("B", _missing(b, a)))
        if names
    )
    equal = len(both) - len(rows)
    left_out = f"{plural(equal, 'tensor')} without a difference {'is' if equal == 1 else 'are'} left out."
    notes = (*((pair.sentence,) if rows and pair.why else ()), *((left_out,) if equal else ()))
    reason = (Lines("What is compared", notes),) if notes else ()
    table = (Table("Tensors that both quantize, those that differ most first", COMPARED, tuple(rows)),) if rows else ()
    return *reason, *table, *((Lines("Quantized in one model only", alone),) if alone else ())


def _differs(row: tuple[Cell, ...]) -> bool:
    """Return whether two rows differ in the format, or in a value that both models have."""
    return row[2].text != row[3].text or any(row[at].sort not in {None, 0.0} for at in _DIFFERENCES)


def _tensors(check: CheckReport) -> dict[_Place, BoundaryResult]:
    """Return each tensor once; if several nodes quantize a tensor, the entry with the worst SQNR."""
    found: dict[_Place, BoundaryResult] = {}
    for each in check.boundaries:
        known = found.get((each.graph, each.tensor))
        if known is None or _sqnr(each) < _sqnr(known):
            found[each.graph, each.tensor] = each
    return found


def _sqnr(found: BoundaryResult) -> float:
    return found.sqnr_db if found.sqnr_db is not None else float("inf")


def _missing(a: dict[_Place, BoundaryResult], b: dict[_Place, BoundaryResult]) -> list[str]:
    return [scoped(tensor, graph) for graph, tensor in a if (graph, tensor) not in b]


def _clipped(found: BoundaryResult) -> float | None:
    return found.clipped / found.elements if found.elements else None


def _row(a: BoundaryResult, b: BoundaryResult, *, is_fair: bool) -> tuple[Cell, ...]:
    sqnrs, clipped = in_decibels((a.sqnr_db, b.sqnr_db)), in_shares((_clipped(a), _clipped(b)))
    return (
        text(scoped(a.tensor, a.graph)),
        text(a.kind),
        *(text(f"{each.format}, {each.granularity}") for each in (a, b)),
        *(sqnrs if is_fair else (*sqnrs[:2], NONE)),
        *(clipped if is_fair else (*clipped[:2], NONE)),
    )


SECTION = Section(
    50,
    "Quantized tensors",
    ("check",),
    blocks,
    Comparison("Quantized tensors that differ", ("check --baseline for both models",), compared),
)
