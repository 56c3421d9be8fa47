"""The fallback format: what a unit may have where the format of the plan costs too much, before it becomes float."""

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from qdqtool.accuracy.layers.costs import Cost, FormatBits, fallback_shares
from qdqtool.accuracy.layers.units import Unit, readers_of
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.scope import ScopePath
from qdqtool.models.plan import Placement, QuantPlan, UseRef

_Place = tuple[ScopePath, str, frozenset[UseRef] | None]


class Level(enum.IntEnum):
    """What a unit computes in; the cheapest first."""

    QUANTIZED = 0
    FALLBACK = 1
    FLOAT = 2


Levels = tuple[Level, ...]
"""The level of each unit, in the order of the units."""


@dataclass(frozen=True, slots=True, eq=False)
class Fallback:
    """The fallback format of some units.

    Attributes:
        name: The format.
        digest: Names its parameters.
        placements: The pairs in that format, by the number of the site that they stand in for.
        shares: What it costs to compute a unit in that format, as a share of the cost of all units in float. Units that
            do not take the format are not there.
    """

    name: str
    digest: str
    placements: Mapping[int, Placement]
    shares: Mapping[Unit, float]

    @property
    def key(self) -> str:
        """Names what was measured in the format with these parameters."""
        return f"{self.name}-{self.digest}"

    def setting(self, unit: Unit) -> dict[int, Placement]:
        """Return the pairs of a unit in the fallback format, by site."""
        return {site: self.placements[site] for site in unit.sites}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FinerPlan:
    """A plan for the same model in the fallback format.

    Attributes:
        name: The format.
        digest: Names the parameters of the plan.
        plan: The pairs.
        bits: Bits of numbers in each format.
    """

    name: str
    digest: str
    plan: QuantPlan
    bits: FormatBits


def fallback_of(
    plan: QuantPlan, finer: FinerPlan, units: Sequence[Unit], costs: Sequence[Cost], index: ModelIndex
) -> Fallback:
    """Return the fallback format of the units that take it.

    A unit takes it where the finer plan has the same pairs for its nodes: on the same tensors, for the same readers.

    Args:
        plan: The plan that the units are of, divided by reader.
        finer: The plan in the fallback format, divided likewise.
        units: The units.
        costs: The cost of each.
        index: Of the model that both plans were made for.
    """
    waiting = {_place(placement): placement for placement in finer.plan}
    found = {site: waiting.pop(_place(each)) for site, each in enumerate(plan) if _place(each) in waiting}
    others = {node for placement in waiting.values() for node in readers_of(placement, index)}
    shares = {
        unit: share
        for unit, share in zip(units, fallback_shares(costs, finer.bits), strict=True)
        if all(site in found for site in unit.sites) and not others & set(unit.nodes)
    }
    return Fallback(finer.name, finer.digest, _of_units(found, shares), shares)


def _place(placement: Placement) -> _Place:
    slot = placement.slot
    return slot.scope, slot.tensor, None if slot.uses is None else frozenset(slot.uses)


def _of_units(found: Mapping[int, Placement], units: Iterable[Unit]) -> dict[int, Placement]:
    return {site: found[site] for unit in units for site in unit.sites}
