"""The page of number formats says what the targets' tables say."""

from qdqtool.numerics import formats
from qdqtool.reports.markdown import formats as page


def test_every_format_has_a_row_in_both_tables():
    rows = [line.split(" | ") for line in page.page().splitlines() if line.startswith("| ")]
    for name in formats.names():
        assert sum(row[0] == f"| {name}" for row in rows) == 2


def test_rows_carry_the_facts():
    text = page.page()
    assert "| 4 | -6 to 6 | 0 | saturates | 2 in 1 byte | 23 | 23 |  |" in text
    assert "| 6 | -28 to 28 | 0 | saturates | 4 in 3 bytes | 28 | 28 |  |" in text
    assert "| float8e4m3fn | Q, DQ, symmetric | Q, DQ, symmetric | Q, DQ, symmetric, sm 89 |" in text
    assert "| float8e8m0 | scale | - | - | - |" in text
