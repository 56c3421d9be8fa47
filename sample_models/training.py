"""What the training scripts share: fixed seeds, one thread, and a plain loop over shuffled batches."""

from collections.abc import Iterator

import torch

SEED = 20261121


def make_deterministic() -> None:
    """Same machine, same torch, same weights: one seed, one thread, deterministic kernels only."""
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(mode=True)


def shuffled_batches(samples: int, batch_size: int) -> Iterator[torch.Tensor]:
    """Index batches of one epoch; a last batch that is not full is left out."""
    order = torch.randperm(samples)
    yield from order[: samples - samples % batch_size].split(batch_size)
