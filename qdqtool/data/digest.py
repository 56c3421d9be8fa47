"""Digests of samples, and of data as the list of its samples' digests."""

import hashlib
from collections.abc import Iterable, Mapping

import numpy as np

from qdqtool.numerics.dtypes import Array


def sample_digest(sample: Mapping[str, Array]) -> bytes:
    """The sha256 of one sample: of each input, in the order of their names, its name, type, shape and values."""
    digest = hashlib.sha256()
    for name in sorted(sample):
        array = np.ascontiguousarray(sample[name])
        digest.update(f"{name}\0{array.dtype}\0{list(array.shape)}\0".encode())
        digest.update(array.reshape(-1).view(np.uint8).data)
    return digest.digest()


def data_digest(samples: Iterable[bytes]) -> str:
    """The sha256 of data, from the digests of its samples in order, as hexadecimal digits."""
    return hashlib.sha256(b"".join(samples)).hexdigest()
