"""Pairs of models for the sections that compare two, made of JSON reports."""

from pathlib import Path
from typing import Any

from qdqtool.reports.blocks import Block, Cell, Lines, Table
from qdqtool.reports.page.pair import Pair, judged
from qdqtool.reports.saved.grouping import group
from qdqtool.reports.saved.reading import read_reports
from support.saved_reports import save

Documents = dict[str, Any]


def pair_of(folder: Path, first: Documents, second: Documents) -> Pair:
    """Return the pair of two models, each of its own reports."""
    (folder / "second").mkdir(exist_ok=True)
    a, b = save(folder, **first), save(folder / "second", **second)
    return Pair(*judged(group(read_reports(a), read_reports(b))))


def rows_of(blocks: tuple[Block, ...], caption: str = "") -> dict[str, list[str]]:
    """Return the texts of the first table whose caption has some words, by their first column."""
    return {row[0].text: [cell.text for cell in row[1:]] for row in table_of(blocks, caption).rows}


def table_of(blocks: tuple[Block, ...], caption: str = "") -> Table:
    """Return the first table whose caption has some words."""
    return next(block for block in blocks if isinstance(block, Table) and caption in block.caption)


def said_in(blocks: tuple[Block, ...]) -> list[str]:
    """Return every sentence."""
    return [line for block in blocks if isinstance(block, Lines) for line in block.lines]


def sorts(cells: tuple[Cell, ...]) -> list[float | str | None]:
    """Return what each cell is sorted by."""
    return [cell.sort for cell in cells]
