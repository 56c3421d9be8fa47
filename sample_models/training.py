"""What the training scripts share: fixed seeds, one thread, and a plain loop over shuffled batches."""

from collections.abc import Iterator

import torch
from torch.nn import functional

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


def shift(images: torch.Tensor) -> torch.Tensor:
    """Every 8x8 image of [n, 1, 8, 8] moved by -1, 0 or 1 pixel in each direction, empty where it came from."""
    count = len(images)
    down, right = torch.randint(0, 3, (2, count, 1, 1))
    rows = down + torch.arange(8)[:, None]
    columns = right + torch.arange(8)
    padded = functional.pad(images[:, 0], (1, 1, 1, 1))
    return padded[torch.arange(count)[:, None, None], rows, columns][:, None]
