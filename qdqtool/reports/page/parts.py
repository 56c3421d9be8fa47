"""The parts of the page: the sections of one model; or a comparison, followed by the sections of each model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from qdqtool.reports.page.comparison import every_comparison
from qdqtool.reports.page.content import Block
from qdqtool.reports.page.pair import JudgedModel, Pair
from qdqtool.reports.page.section import Section
from qdqtool.reports.page.sections import every_section

Shown = TypeVar("Shown")


@dataclass(frozen=True, slots=True)
class Part:
    """Sections under one heading.

    Attributes:
        heading: What they show; empty where the page has one part.
        prefix: What their ids begin with.
        sections: The sections that have content.
        missing: Titles of the others, with the commands that fill them.
    """

    heading: str
    prefix: str
    sections: tuple[tuple[Section[Any], tuple[Block, ...]], ...]
    missing: tuple[tuple[str, str], ...]


def parts_of(models: Sequence[JudgedModel]) -> tuple[Part, ...]:
    """Return the parts of a page.

    Args:
        models: One model, or two that are compared.
    """
    if len(models) == 1:
        return (_part("", "", every_section(), models[0].story),)
    each = (_part(model.label, f"{model.letter.lower()}-", every_section(), model.story) for model in models)
    return _part("Comparison", "both-", every_comparison(), Pair(*models)), *each


def _part(heading: str, prefix: str, sections: Iterable[Section[Shown]], shown: Shown) -> Part:
    made = [(section, section.blocks(shown)) for section in sections]
    return Part(
        heading,
        prefix,
        tuple((section, blocks) for section, blocks in made if blocks),
        tuple(_missing(section) for section, blocks in made if section.needs and not blocks),
    )


def _missing(section: Section[Shown]) -> tuple[str, str]:
    return section.title, " or ".join(f"qdqtool {command}" for command in section.needs)
