"""Layers that differ between two models: noise, SQNRs and precision side by side."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from qdqtool.errors import plural
from qdqtool.reports.blocks import Block, Cell, Column, Lines, Table, scoped, text
from qdqtool.reports.page.comparison._cells import DIFFERENCE, NONE, Compared, in_decibels, in_shares
from qdqtool.reports.page.comparison._fairness import check_pairs, only, sensitivities_differ
from qdqtool.reports.page.layers import Layer, join_layers
from qdqtool.reports.page.pair import Pair
from qdqtool.reports.page.section import Section
from qdqtool.reports.saved.stored_reports import StoredSensitivity

_MEASURES = ("Share of noise", "SQNR alone", "SQNR of worst input")
COLUMNS = (
    Column("Layer"),
    Column("Operator"),
    *(
        Column(f"{measure}, {which}", numeric=True, bars=which == DIFFERENCE)
        for measure in _MEASURES
        for which in ("A", "B", DIFFERENCE)
    ),
    Column("Precision in A"),
    Column("Precision in B"),
)


@dataclass(frozen=True, slots=True)
class _Both:
    """A layer of both models.

    Attributes:
        a: That of the first model.
        b: That of the second one.
        cells: The row of the table.
    """

    a: Layer
    b: Layer
    cells: tuple[Cell, ...]

    @property
    def differs(self) -> bool:
        """Whether anything that is known of both is different."""
        return _precision(self.a) != _precision(self.b) or any(self._differences)

    @property
    def order(self) -> tuple[float, ...]:
        """The smaller, the more it differs: float in one model alone, then noise, then SQNRs."""
        return (-(self.a.stays_float != self.b.stays_float), *(-abs(found) for found in self._differences))

    @property
    def _differences(self) -> tuple[float, ...]:
        found = (self.cells[place].sort for place in (4, 7, 10))
        return tuple(each if isinstance(each, float) else 0.0 for each in found)


def blocks(pair: Pair) -> tuple[Block, ...]:
    """Return the layers that both models have and that differ, those that differ most first."""
    pairs = check_pairs(pair)
    checks = tuple(found.a for found in pairs), tuple(found.b for found in pairs)
    a, b = (
        {(layer.graph, layer.node): layer for layer in join_layers(only(story, kept))}
        for story, kept in zip(pair.stories, checks, strict=True)
    )
    by_check = next((found.why for found in pairs), "")
    by_effect = sensitivities_differ(*pair.each(lambda story: story.first(StoredSensitivity)))
    both = [_both(a[place], b[place], by_effect, by_check) for place in a if place in b]
    if not both:
        return ()
    different = sorted((each for each in both if each.differs), key=lambda each: each.order)
    notes = tuple(_notes(len(both) - len(different), by_effect, by_check))
    table = (Table("Layers, those that differ most first", COLUMNS, tuple(each.cells for each in different)),)
    return (*((Lines("What is compared", notes),) if notes else ()), *(table if different else ()))


def _both(a: Layer, b: Layer, by_effect: str, by_check: str) -> _Both:
    name = scoped(a.node, a.graph)
    leader = a.leader or b.leader
    is_part = bool(a.leader) or a.stays_float, bool(b.leader) or b.stays_float
    is_float = a.stays_float, b.stays_float
    cells = (
        text(f"{name} (part of {leader})" if leader else name),
        text(a.op_type or b.op_type),
        *_shown(in_shares((a.noise_share, b.noise_share)), is_part, by_effect),
        *_shown(in_decibels((a.alone_db, b.alone_db)), is_part, by_effect),
        *_shown(in_decibels((a.input_db, b.input_db)), is_float, by_check),
        text(_precision(a)),
        text(_precision(b)),
    )
    return _Both(a, b, cells)


def _shown(found: Compared, is_empty: tuple[bool, bool], why: str) -> Compared:
    """Return the values with a dash where a layer cannot have one, and for a difference that is unfair."""
    # The reason stands above the table: it is the same in every row.
    a, b, difference = found
    return NONE if is_empty[0] else a, NONE if is_empty[1] else b, NONE if why or any(is_empty) else difference


def _precision(layer: Layer) -> str | None:
    if layer.stays_float:
        return "float"
    if layer.actual in {None, "unknown"} or layer.actual == layer.planned:
        return layer.planned
    return f"{layer.actual}, planned {layer.planned}"


def _notes(equal: int, by_effect: str, by_check: str) -> Iterator[str]:
    if equal:
        yield f"{plural(equal, 'layer')} without a difference {'is' if equal == 1 else 'are'} left out."
    if by_effect:
        yield f"No difference of noise and SQNR alone is given: {by_effect}."
    if by_check:
        yield f"No difference of the SQNR of inputs is given: {by_check}."


SECTION = Section(30, "Layers that differ", ("quantize, check and sensitivity of both models",), blocks)
