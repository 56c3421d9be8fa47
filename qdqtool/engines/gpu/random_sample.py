"""A seeded random sample for an engine: times hardly depend on the values, and an engine has no ranges to draw from."""

from collections.abc import Sequence

from qdqtool.samples import Feeds, InputSpec
from qdqtool.samples.feeds import DataDescription
from qdqtool.samples.noise import SMALL_INTEGERS, RandomSamples

SEED = 0


def random_sample(specs: Sequence[InputSpec]) -> Feeds:
    """Return one sample: standard normal floats, and integers from 0 to 9.

    Args:
        specs: The inputs; every extent is a number.
    """
    shapes = {spec.name: tuple(extent for extent in spec.shape or () if isinstance(extent, int)) for spec in specs}
    samples = RandomSamples(tuple(specs), dict.fromkeys(shapes, SMALL_INTEGERS), {}, SEED, 1)
    return Feeds(samples, DataDescription("random", 1, SEED, shapes))
