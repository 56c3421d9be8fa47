"""What a module of ``sections/`` or ``comparison/`` exposes: a section of the page, made of the joined reports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from qdqtool.reports.blocks import Block

Shown = TypeVar("Shown")
"""What a section shows: the story of one model, or a pair of models."""


@dataclass(frozen=True, slots=True)
class Section(Generic[Shown]):
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
    blocks: Callable[[Shown], tuple[Block, ...]]
