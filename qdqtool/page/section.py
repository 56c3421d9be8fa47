"""What a module of ``sections/`` exposes: a section of the page, made of the joined reports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from qdqtool.page.content import Block
from qdqtool.page.story import Story


@dataclass(frozen=True, slots=True)
class Section:
    """One section.

    Attributes:
        order: Its place on the page: sections are sorted by it.
        title: Its heading.
        needs: The commands whose reports it is made of, for the list of what is unknown.
        blocks: Makes its content; an empty tuple where the reports say nothing of it.
    """

    order: int
    title: str
    needs: tuple[str, ...]
    blocks: Callable[[Story], tuple[Block, ...]]
