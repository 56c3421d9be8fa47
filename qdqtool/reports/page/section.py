"""The interface of the modules of ``sections/``: a section of the page, about one model or two compared models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from qdqtool.reports.blocks import Block
from qdqtool.reports.page.pair import Pair
from qdqtool.reports.saved.story import Story


@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparison of two models in a section.

    Attributes:
        title: Its heading.
        needs: The commands whose reports it needs, for the list of missing sections.
        blocks: Returns its content; an empty tuple if the reports have none.
    """

    title: str
    needs: tuple[str, ...]
    blocks: Callable[[Pair], tuple[Block, ...]]


@dataclass(frozen=True, slots=True)
class Section:
    """One section.

    Attributes:
        order: The number by which sections are sorted.
        title: Its heading.
        needs: The commands whose reports it needs, for the list of missing sections.
        blocks: Returns its content for one model; an empty tuple if the reports have none.
        comparison: The comparison of two models; None without a comparison.
        is_open: Whether it is open at first; only sections on the first screen are.
    """

    order: int
    title: str
    needs: tuple[str, ...]
    blocks: Callable[[Story], tuple[Block, ...]]
    comparison: Comparison | None = None
    is_open: bool = False
