"""The fallback format: a layer can get it instead of float, if the format of the plan makes too much noise."""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from qdqtool.accuracy.layers.layer import Cost, Layer, readers_of, shares_of
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.scope import ScopePath
from qdqtool.models.plan import Placement, QuantPlan, UseRef

_Place = tuple[ScopePath, str, frozenset[UseRef] | None]


class Level(enum.IntEnum):
    """The format that a layer computes in, the cheapest first."""

    QUANTIZED = 0
    FALLBACK = 1
    FLOAT = 2


Levels = tuple[Level, ...]
"""The level of each layer, in the order of the layers."""


@dataclass(frozen=True, slots=True, eq=False)
class Fallback:
    """The fallback format of some layers.

    Attributes:
        name: The format.
        digest: Identifies the parameters of the format.
        placements: The pairs in that format, by the number of the site whose pair they replace.
        shares: The cost in the format of each layer that can have it, as a share of the cost of all layers in float.
    """

    name: str
    digest: str
    placements: Mapping[int, Placement]
    shares: Mapping[Layer, float]

    @property
    def key(self) -> str:
        """Identifies measurements in the format with these parameters."""
        return f"{self.name}-{self.digest}"

    def setting(self, layer: Layer) -> dict[int, Placement]:
        """Return the pairs of a layer in the fallback format, by site."""
        return {site: self.placements[site] for site in layer.sites}


NO_FALLBACK = Fallback("", "", {}, {})
"""A fallback format that no layer can have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatBits:
    """The number of bits in each format that a layer can have.

    Attributes:
        quantized: In the format of the plan.
        fallback: In the fallback format.
        unquantized: In float.
        activations: Whether activations are quantized as well, so that types change between layers of two formats.
    """

    quantized: int
    fallback: int
    unquantized: int
    activations: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SecondaryPlan:
    """A plan for the same model in the fallback format.

    Attributes:
        name: The format.
        digest: Identifies the parameters of the plan.
        plan: The pairs.
        bits: Bits of numbers in each format.
    """

    name: str
    digest: str
    plan: QuantPlan
    bits: FormatBits


def fallback_shares(costs: Sequence[Cost], bits: FormatBits) -> tuple[float, ...]:
    """Return the cost of each layer in the fallback format; :func:`shares` returns the cost in float.

    Multiply-accumulates and weights cost a part of their cost in float, in proportion to the additional bits of the
    format (at least one). The share in the number of layers represents the changes of types. It counts fully if
    activations are quantized, and else not at all.
    """
    more = max(bits.fallback - bits.quantized, 1)
    part = more / max(bits.unquantized - bits.quantized, more + 1)
    changes = 1 / len(costs) if bits.activations and costs else 0.0
    macs, weights = shares_of([cost.macs for cost in costs]), shares_of([cost.weights for cost in costs])
    return tuple((part * (mac + weight) + changes) / 3 for mac, weight in zip(macs, weights, strict=True))


def fallback_of(
    plan: QuantPlan, secondary: SecondaryPlan, layers: Sequence[Layer], costs: Sequence[Cost], index: ModelIndex
) -> Fallback:
    """Return the fallback format with the layers that can have it.

    A layer can have it if the secondary plan has the same pairs for its nodes: the same tensors and readers.
    """
    waiting = {_place(placement): placement for placement in secondary.plan}
    found = {site: waiting.pop(_place(each)) for site, each in enumerate(plan) if _place(each) in waiting}
    others = {node for placement in waiting.values() for node in readers_of(placement, index)}
    shares = {
        layer: share
        for layer, share in zip(layers, fallback_shares(costs, secondary.bits), strict=True)
        if all(site in found for site in layer.sites) and not others & set(layer.nodes)
    }
    placements = {site: found[site] for layer in shares for site in layer.sites}
    return Fallback(secondary.name, secondary.digest, placements, shares)


def _place(placement: Placement) -> _Place:
    slot = placement.slot
    return slot.scope, slot.tensor, None if slot.uses is None else frozenset(slot.uses)
