"""The handwritten digits that come with scikit-learn, split once and for all into training and test images."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

TEST_IMAGES = 540
SPLIT_SEED = 0


@dataclass(frozen=True, slots=True)
class Digits:
    """Images with their labels.

    Attributes:
        images: float32 in [0, 1], shape [samples, 8, 8].
        labels: int64 from 0 to 9, shape [samples].
    """

    images: npt.NDArray[np.float32]
    labels: npt.NDArray[np.int64]


def load_split() -> tuple[Digits, Digits]:
    """The 1,257 training and the 540 test images, with the same share of every digit in both."""
    bundle = load_digits()
    images = (bundle.images / 16).astype(np.float32)
    labels = bundle.target.astype(np.int64)
    train, test = train_test_split(
        np.arange(len(labels)), test_size=TEST_IMAGES, random_state=SPLIT_SEED, stratify=labels
    )
    return Digits(images[train], labels[train]), Digits(images[test], labels[test])
