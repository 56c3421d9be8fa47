"""What the outputs of a state lack of a goal: SQNR from the noise of the outputs, as a search compares it."""

import numpy as np

from qdqtool.accuracy.layers.output_noise import WORST_DB, OutputNoise
from qdqtool.numerics.dtypes import Array


def shortfall(sqnr: Array, goal_db: float) -> Array:
    """Return the sum over outputs, the last axis, of what they lack of the goal, in dB."""
    return np.asarray(np.maximum(goal_db - sqnr, 0.0).sum(axis=-1))


def heard_sqnr(noise: OutputNoise) -> Array:
    """Return the SQNR of the outputs that are not zero everywhere; one that is not finite has the least there is."""
    return np.asarray(np.maximum(noise.sqnr_db()[noise.signal.sum(axis=0) > 0], -WORST_DB))


def noise_power(noise: OutputNoise) -> Array:
    """Return the noise of each output over all samples, that of one that is not finite as :func:`heard_sqnr` has it."""
    return np.asarray(np.minimum(noise.noise.sum(axis=0), noise.signal.sum(axis=0) * 10 ** (WORST_DB / 10)))
