"""Gives untrained networks what training would have given them. Needs torch."""

from collections.abc import Callable

import numpy as np
import torch
from torch import nn

from benchmarks.networks.network import Sample

SEED, WARM_BATCHES = 7, 4


def warm(module: nn.Module, sample: Callable[[np.random.Generator], Sample]) -> None:
    """Give BatchNormalization the statistics of a few samples, as training would."""
    norms = [each for each in module.modules() if isinstance(each, nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d)]
    random = np.random.default_rng(SEED + 1)
    for norm in norms:
        norm.train()
        norm.reset_running_stats()
        norm.momentum = None
    with torch.no_grad():
        for _ in range(WARM_BATCHES if norms else 0):
            samples = [sample(random) for _ in range(4)]
            module(*(torch.from_numpy(np.concatenate([each[name] for each in samples])) for name in samples[0]))
        for norm in norms:
            # Trained gains differ from channel to channel.
            if norm.weight is not None:
                norm.weight.mul_(torch.exp(0.3 * torch.randn_like(norm.weight)))
                norm.bias.add_(0.2 * torch.randn_like(norm.bias))
    module.eval()
