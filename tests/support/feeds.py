"""Samples that tell their number."""

import numpy as np

from qdqtool.samples.feeds import Feeds
from qdqtool.samples.report import DataDescription


def numbered(count: int) -> Feeds:
    """Return samples of one input ``x``, each with its number as the only value."""
    samples = [{"x": np.full(1, number, np.float32)} for number in range(count)]
    return Feeds(samples, DataDescription("made up", count, None, {"x": (1,)}))
