"""What both models are, and what came of them: each fact in two columns, with the difference."""

from collections.abc import Iterator
from itertools import chain

from qdqtool.reports.blocks import Block, Cell, Column, Lines, Table
from qdqtool.reports.page.comparison._cells import DIFFERENCE, Row, in_words
from qdqtool.reports.page.comparison._fairness import check_pairs
from qdqtool.reports.page.comparison._results import origin_rows, result_rows, setting_rows
from qdqtool.reports.page.pair import Pair
from qdqtool.reports.page.section import Section

COLUMNS = (Column("Fact"), Column("A", prose=True), Column("B", prose=True), Column(DIFFERENCE, numeric=True))
_WORDS = {"passed": "passed", "failed": "FAILED", "unknown": "incomplete"}


def blocks(pair: Pair) -> tuple[Block, ...]:
    """Return the facts that are known of one of the models at least, and on what the SQNRs were measured."""
    rows = (_verdict(pair), *chain(setting_rows(pair), result_rows(pair), origin_rows(pair)))
    known = tuple(row.cells for row in rows if row.is_known)
    notes = tuple(_notes(pair))
    table = Table(f"A is {pair.a.name}, B is {pair.b.name}", COLUMNS, known)
    return (table, Lines("What is compared", notes)) if notes else (table,)


def _verdict(pair: Pair) -> Row:
    a, b = pair.a.verdict.overall, pair.b.verdict.overall
    *_, difference = in_words((a, b))
    return Row("Verdict", (Cell(_WORDS[a], a, a), Cell(_WORDS[b], b, b), difference))


def _notes(pair: Pair) -> Iterator[str]:
    files = [story.quantized.file for story in pair.stories if story.quantized is not None]
    if len(files) == 2 and files[0] is not None and files[0] == files[1]:
        yield "A and B are the same file: only their data, versions and builds can differ."
    yield from dict.fromkeys(found.sentence for found in check_pairs(pair))


SECTION = Section(10, "Facts", (), blocks)
