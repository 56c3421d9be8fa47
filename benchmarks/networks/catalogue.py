"""All networks. Importing it needs torch; torchvision, timm and transformers are imported where a network is made."""

import sys
from collections.abc import Sequence

import torch

from benchmarks.networks.families import (
    hand_written_sequences,
    hand_written_vision,
    timm_models,
    torchvision_models,
    transformers_models,
)
from benchmarks.networks.network import Network


def _declare_operators_of_torchvision() -> None:
    """Let torchvision be imported where its compiled operators do not fit torch, as a CPU build of torch.

    No network here needs them, but the import describes these two.
    """
    try:
        import torchvision  # noqa: F401
    except RuntimeError:
        library = torch.library.Library("torchvision", "DEF")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _KEPT.append(library)
        for name in [each for each in sys.modules if each.split(".")[0] == "torchvision"]:
            del sys.modules[name]


_KEPT: list[torch.library.Library] = []
"""A library that goes takes its operators with it."""

_FAMILIES = (hand_written_vision, hand_written_sequences, torchvision_models, timm_models, transformers_models)


def networks(names: Sequence[str] = ()) -> tuple[Network, ...]:
    """Return the networks of these names, or all.

    Raises:
        SystemExit: A name is unknown.
    """
    _declare_operators_of_torchvision()
    known = {network.name: network for family in _FAMILIES for network in family.NETWORKS}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise SystemExit(f"network '{unknown[0]}' is unknown; there are: {', '.join(known)}")
    return tuple(known[name] for name in names or known)
