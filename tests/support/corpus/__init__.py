"""Models that each vary one thing of a Q/DQ graph: what the linter is compared with the real judges on.

A module yields the cases of one theme. No case is written with a rule in mind: the variations are crossed, legal or
not, and the judges say which are legal.
"""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from support.corpus import (
    attention,
    attributes,
    block_attributes,
    consumers,
    control_flow,
    declared_types,
    float_types,
    foreign_operators,
    gpus,
    moved_codes,
    node_names,
    opsets,
    scale_shapes,
    scale_values,
    sparse,
    stored_weights,
    weight_scales,
    wiring,
    zero_points,
)
from support.corpus._case import Case as Case

GROUPS: Mapping[str, Callable[[], Iterator[Case]]] = MappingProxyType(
    {
        "zero points": zero_points.cases,
        "scale shapes": scale_shapes.cases,
        "scale values": scale_values.cases,
        "stored weights": stored_weights.cases,
        "weight scales": weight_scales.cases,
        "wiring": wiring.cases,
        "consumers": consumers.cases,
        "opsets": opsets.cases,
        "control flow": control_flow.cases,
        "attributes": attributes.cases,
        "float types": float_types.cases,
        "gpus": gpus.cases,
        "node names": node_names.cases,
        "attention": attention.cases,
        "foreign operators": foreign_operators.cases,
        "declared types": declared_types.cases,
        "moved codes": moved_codes.cases,
        "sparse": sparse.cases,
        "block attributes": block_attributes.cases,
    }
)

SAMPLE = 62
"""How many cases of a group the daily run takes."""


def sample(group: str) -> list[Case]:
    """Cases of a group spread evenly over it, its first and last ones among them; all of a small group."""
    found = list(GROUPS[group]())
    count = min(SAMPLE, len(found))
    return [found[index * (len(found) - 1) // max(count - 1, 1)] for index in range(count)]
