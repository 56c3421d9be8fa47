"""How much each layer affects the outputs, and the SQNR of its inputs against the float model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from qdqtool.errors import plural
from qdqtool.jobs.sensitivity_report import SensitivityReport
from qdqtool.reports.blocks import (
    Block,
    Cell,
    Column,
    Columns,
    Lines,
    Table,
    decibels,
    number,
    scoped,
    share,
    tabulate,
    text,
)
from qdqtool.reports.page.difference import DIFFERENCE, NONE, Compared, in_decibels, in_shares
from qdqtool.reports.page.fairness import check_pairs, only, sensitivities_differ
from qdqtool.reports.page.layers import Layer, join_layers
from qdqtool.reports.page.pair import Pair
from qdqtool.reports.page.section import Comparison, Section
from qdqtool.reports.saved.story import Story


def blocks(story: Story) -> tuple[Block, ...]:
    """Return a table with a row for each quantizable node, if a report measured layers or tensors.

    A column without any figure is left out.
    """
    layers = join_layers(story)
    if not any(layer.is_measured for layer in layers):
        return ()
    order = ", the noisiest first" if any(layer.noise_share for layer in layers) else " in the order of the reports"
    known = {
        column: cell
        for column, cell in COLUMNS.items()
        if not column.numeric or any(cell(layer).sort is not None for layer in layers)
    }
    return (tabulate(f"Quantizable nodes{order}", known, layers),)


def _label(layer: Layer, leader: str) -> Cell:
    name = scoped(layer.node, layer.graph)
    return text(f"{name} (part of {leader})" if leader else name)


def _effect(layer: Layer, cell: Cell) -> Cell:
    """Return a cell, or a dash if a node stays float or is measured as part of another layer."""
    return NONE if layer.leader else _input(layer, cell)


def _input(layer: Layer, cell: Cell) -> Cell:
    return NONE if layer.stays_float else cell


def _cost(layer: Layer) -> Cell:
    cell = share(layer.cost_share)
    return NONE if layer.leader or cell.sort is None else cell


def _precision(layer: Layer) -> Cell:
    if layer.stays_float:
        return text("float")
    if layer.actual is None:
        return text(None)
    if layer.actual == layer.planned:
        return text(layer.actual, "passed")
    return text(f"{layer.actual}, planned {layer.planned}", "unknown" if layer.actual == "unknown" else "warning")


COLUMNS: Columns[Layer] = {
    Column("Layer"): lambda layer: _label(layer, layer.leader),
    Column("Operator"): lambda layer: text(layer.op_type),
    Column("Share of noise", numeric=True, bars=True): lambda layer: _effect(layer, share(layer.noise_share)),
    Column("SQNR alone", numeric=True, bars=True): lambda layer: _effect(layer, decibels(layer.alone_db)),
    Column("Gain in float", numeric=True, bars=True): lambda layer: _effect(layer, number(layer.gain_db, "+.2f", "dB")),
    Column("Share of cost", numeric=True, bars=True): _cost,
    Column("SQNR of worst input", numeric=True, bars=True): lambda layer: _input(layer, decibels(layer.input_db)),
    Column("Clipped", numeric=True, bars=True): lambda layer: _input(layer, share(layer.clipped)),
    Column("Precision"): _precision,
}
_MEASURES = ("Share of noise", "SQNR alone", "SQNR of worst input")
COMPARED = (
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
    """A layer of both models."""

    a: Layer
    b: Layer
    cells: tuple[Cell, ...]

    @property
    def differs(self) -> bool:
        """Whether the models differ in the precision, or in a number that both have."""
        return _planned_or_actual(self.a) != _planned_or_actual(self.b) or any(self._differences)

    @property
    def order(self) -> tuple[float, ...]:
        """The sort key: first layers that are float in only one model; then by difference of noise, and of SQNRs."""
        return (-(self.a.stays_float != self.b.stays_float), *(-abs(found) for found in self._differences))

    @property
    def _differences(self) -> tuple[float, ...]:
        found = (self.cells[place].sort for place in (4, 7, 10))
        return tuple(each if isinstance(each, float) else 0.0 for each in found)


def compared(pair: Pair) -> tuple[Block, ...]:
    """Return the layers that differ between the models, largest differences first."""
    pairs = check_pairs(pair)
    checks = tuple(found.a for found in pairs), tuple(found.b for found in pairs)
    a, b = (
        {(layer.graph, layer.node): layer for layer in join_layers(only(story, kept))}
        for story, kept in zip(pair.stories, checks, strict=True)
    )
    by_check = next((found.why for found in pairs), "")
    by_effect = sensitivities_differ(*pair.each(lambda story: story.first(SensitivityReport)))
    both = [_both(a[place], b[place], by_effect, by_check) for place in a if place in b]
    if not both:
        return ()
    different = sorted((each for each in both if each.differs), key=lambda each: each.order)
    notes = tuple(_notes(len(both) - len(different), by_effect, by_check))
    table = (Table("Layers, those that differ most first", COMPARED, tuple(each.cells for each in different)),)
    return (*((Lines("What is compared", notes),) if notes else ()), *(table if different else ()))


def _both(a: Layer, b: Layer, by_effect: str, by_check: str) -> _Both:
    is_part = bool(a.leader) or a.stays_float, bool(b.leader) or b.stays_float
    is_float = a.stays_float, b.stays_float
    cells = (
        _label(a, a.leader or b.leader),
        text(a.op_type or b.op_type),
        *_shown(in_shares((a.noise_share, b.noise_share)), is_part, by_effect),
        *_shown(in_decibels((a.alone_db, b.alone_db)), is_part, by_effect),
        *_shown(in_decibels((a.input_db, b.input_db)), is_float, by_check),
        text(_planned_or_actual(a)),
        text(_planned_or_actual(b)),
    )
    return _Both(a, b, cells)


def _shown(found: Compared, is_empty: tuple[bool, bool], why: str) -> Compared:
    """Return the cells, with a dash for a value that a layer cannot have, or a difference that would be unfair."""
    # The reason is given above the table, since it is the same in every row.
    a, b, difference = found
    return NONE if is_empty[0] else a, NONE if is_empty[1] else b, NONE if why or any(is_empty) else difference


def _planned_or_actual(layer: Layer) -> str | None:
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


SECTION = Section(
    40,
    "Layers",
    ("sensitivity", "check and quantize"),
    blocks,
    Comparison("Layers that differ", ("quantize, check and sensitivity for both models",), compared),
)
