"""What a module of ``sections/`` exposes: a section of the page, about one model or about two that are compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from qdqtool.reports.blocks import Block
from qdqtool.reports.page.pair import Pair
from qdqtool.reports.saved.story import Story


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a section tells of two models side by side.

    Attributes:
        title: Its heading.
        needs: The commands whose reports it is made of, for the list of what is unknown.
        blocks: Makes its content; an empty tuple where the reports say nothing of it.
    """

    title: str
    needs: tuple[str, ...]
    blocks: Callable[[Pair], tuple[Block, ...]]


@dataclass(frozen=True, slots=True)
class Section:
    """One section.

    Attributes:
        order: Its place on the page: sections are sorted by it.
        title: Its heading.
        needs: The commands whose reports it is made of, for the list of what is unknown.
        blocks: Makes its content of one model; an empty tuple where the reports say nothing of it.
        comparison: What it tells of two models; None where it compares nothing.
    """

    order: int
    title: str
    needs: tuple[str, ...]
    blocks: Callable[[Story], tuple[Block, ...]]
    comparison: Comparison | None = None
