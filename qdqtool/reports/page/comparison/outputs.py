"""The accuracy of each output of both models."""

from collections.abc import Iterator

from qdqtool.reports.blocks import Block, Cell, Column, Table, text
from qdqtool.reports.page.comparison._cells import DIFFERENCE, EXACT, in_decibels, in_shares
from qdqtool.reports.page.comparison._fairness import CheckPair, check_pairs
from qdqtool.reports.page.comparison._results import sqnr
from qdqtool.reports.page.pair import Pair
from qdqtool.reports.page.section import Section
from qdqtool.reports.saved.stored_outputs import StoredOutput

COLUMNS = (
    Column("Output"),
    Column("SQNR of A", numeric=True),
    Column("SQNR of B", numeric=True),
    Column(f"SQNR, {DIFFERENCE}", numeric=True, bars=True),
)
CODES = (
    Column("Output that is not float"),
    Column("Equal elements in A", numeric=True),
    Column("Equal elements in B", numeric=True),
    Column(f"Equal elements, {DIFFERENCE}", numeric=True),
)


def blocks(pair: Pair) -> tuple[Block, ...]:
    """Return the outputs of each pair of checks, the output that is worst in either model first."""
    return tuple(table for found in check_pairs(pair) for table in _tables(found))


def _tables(pair: CheckPair) -> Iterator[Table]:
    a, b = ({output.name: output for output in check.outputs} for check in (pair.a, pair.b))
    both = sorted(((a.get(name), b.get(name)) for name in {**a, **b}), key=lambda each: min(map(_badness, each)))
    floats = tuple(_floats(*each, pair.why) for each in both if not any(map(_has_codes, each)))
    codes = tuple(_codes(*each, pair.why) for each in both if any(map(_has_codes, each)))
    where = "" if pair.why else f" [{pair.a.data.source}]"
    if floats:
        yield Table(f"Outputs against the float model, worst first{where}", COLUMNS, floats)
    if codes:
        yield Table(f"Outputs that are not float{where}", CODES, codes)


def _has_codes(output: StoredOutput | None) -> bool:
    return output is not None and output.agreement is not None


def _badness(output: StoredOutput | None) -> float:
    if output is None or _has_codes(output):
        return EXACT
    found = sqnr(output)
    return found if found is not None else -EXACT


def _floats(a: StoredOutput | None, b: StoredOutput | None, why: str) -> tuple[Cell, ...]:
    values = sqnr(a) if a is not None else None, sqnr(b) if b is not None else None
    return _name(a, b), *in_decibels(values, why)


def _codes(a: StoredOutput | None, b: StoredOutput | None, why: str) -> tuple[Cell, ...]:
    return _name(a, b), *in_shares((_agreement(a), _agreement(b)), why)


def _name(a: StoredOutput | None, b: StoredOutput | None) -> Cell:
    return text(next(each.name for each in (a, b) if each is not None))


def _agreement(output: StoredOutput | None) -> float | None:
    if output is None:
        return None
    return 1.0 if output.exact else output.agreement


SECTION = Section(20, "Accuracy of the outputs", ("check --baseline of both models",), blocks)
