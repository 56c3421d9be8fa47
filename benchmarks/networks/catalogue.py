"""All networks. Importing it needs torch; torchvision, timm and transformers are imported where a network is made."""

from collections.abc import Sequence

from benchmarks.networks.families import (
    hand_written_sequences,
    hand_written_vision,
    timm_models,
    torchvision_models,
    transformers_models,
)
from benchmarks.networks.network import Network
from benchmarks.networks.torchvision_operators import declare_operators

_FAMILIES = (hand_written_vision, hand_written_sequences, torchvision_models, timm_models, transformers_models)


def networks(names: Sequence[str] = ()) -> tuple[Network, ...]:
    """Return the networks of these names, or all.

    Raises:
        SystemExit: A name is unknown.
    """
    declare_operators()
    known = {network.name: network for family in _FAMILIES for network in family.NETWORKS}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise SystemExit(f"network '{unknown[0]}' is unknown; there are: {', '.join(known)}")
    return tuple(known[name] for name in names or known)
