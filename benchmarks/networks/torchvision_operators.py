"""Lets torchvision be imported where its compiled operators do not fit torch. Needs torch."""

import sys

import torch

_KEPT: list[torch.library.Library] = []
"""A library that goes takes its operators with it."""


def declare_operators() -> None:
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
