"""Find a small layer that alone makes most of the noise, which stays in float.

The Conv of 16 channels to one that computes the expectation of a distribution (the DFL head of YOLO) is an example: its
weights are 0, 1, .., 15, so a step of int8 is an error that every box has. It has a thousandth of the
multiply-accumulates of the model, and in float the boxes keep 19 dB more.

Only small layers can be left, so these are run in float first, all at once, on one sample. Where the worst output gains
little by that, this is the only run. Otherwise the half of them that gains more is taken, until one layer is left. Its
gain on all samples decides.

Halves are run on the sample with the median noise: where a layer makes most of the noise on nearly all samples, it does
so there, and an outlier does not lead the search. A BERT-base, which has no such layer, takes 5 runs; with all samples
it took 36.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from qdqtool.accuracy.layers.layer import Layer, size_shares
from qdqtool.accuracy.layers.masked_model import Setting
from qdqtool.accuracy.layers.masked_runs import float_setting
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.numerics.dtypes import Array
from qdqtool.numerics.noise import Noise
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.quantization.ranges.method_choice import DominantLayer, recorded_dominant
from qdqtool.quantization.ranges.types import PreparationStep

LARGEST_SHARE = 0.01
"""A layer is small if it has at most this share of the multiply-accumulates, and of the weights, of all layers."""

LEAST_GAIN_DB = 3.0
"""By how much the worst output must gain: the layer then makes as much noise as all the others together."""

LEAST_GAIN_ON_ONE_DB = 1.5
"""By how much it must gain on one sample, for the search to go on: samples differ."""

Measure = Callable[[Setting, Sequence[int]], Noise]
"""Gives the noise on some samples, with all layers quantized but those that the setting switches off."""


def find_dominant_layer(
    layers: Sequence[Layer], index: ModelIndex, whole: Noise, measure: Measure
) -> DominantLayer | None:
    """Find the small layer without which the worst output gains most.

    Returns:
        The layer; None where the worst output does not gain :data:`LEAST_GAIN_DB` and the standard error of its gain.
    """
    shares, active = size_shares(layers, index), np.flatnonzero(whole.active)
    small = [layer for layer in layers if max(shares[layer]) <= LARGEST_SHARE]
    if not small or not active.size:
        return None
    worst = int(active[np.argmin(whole.sqnr_db()[active])])
    sample = _median_sample(whole, worst)
    before, before_on_one = whole.of(output=worst), whole.of(samples=[sample], output=worst)

    def gain_on_one(some: Sequence[Layer]) -> float:
        after = measure(float_setting(some), [sample])
        return before_on_one.gain_db(after.of(output=worst))

    gain = gain_on_one(small)
    while gain >= LEAST_GAIN_ON_ONE_DB and len(small) > 1:
        halves = [(half, gain_on_one(half)) for half in (small[: len(small) // 2], small[len(small) // 2 :])]
        small, gain = max(halves, key=lambda half: half[1])
    if gain < LEAST_GAIN_ON_ONE_DB:
        return None
    found = measure(float_setting(small), range(whole.samples)).of(output=worst)
    sure = before.gain_db(found) - before.gain_error_db(found)
    return _recorded(small[0], shares[small[0]], before, found) if sure >= LEAST_GAIN_DB else None


def with_dominant_in_float(recipe: Recipe, record: Sequence[PreparationStep]) -> Recipe:
    """Return the recipe that leaves the layer in float that a calibration recorded, unless the user disables that."""
    layer = recorded_dominant(record) if recipe.preparation.float_layer else None
    if layer is None:
        return recipe
    noise, macs = f"{100 * layer.noise_share:.3g} %", f"{100 * layer.macs_share:.1g} %"
    reason = f"stays in float: makes {noise} of the noise, {macs} of the multiply-accumulates"
    return replace(recipe, selection=replace(recipe.selection, dominant_nodes=dict.fromkeys(layer.nodes, reason)))


def _median_sample(noise: Noise, output: int) -> int:
    """Return the sample with the median ratio of noise to signal at an output, of those that have a signal."""
    signal: Array = noise.signal[:, output]
    active = np.flatnonzero(signal > 0)
    order = np.argsort(noise.noise[active, output] / signal[active], kind="stable")
    return int(active[order[len(active) // 2]])


def _recorded(layer: Layer, size: tuple[float, float], before: Noise, after: Noise) -> DominantLayer:
    first, second = float(before.noise.sum()), float(after.noise.sum())
    return DominantLayer(
        nodes=tuple((node.scope.path, node.key) for node in layer.nodes),
        # Infinite noise: with the layer, values become NaN or infinite.
        noise_share=1.0 if np.isinf(first) else round(1 - second / first, 4),
        macs_share=round(size[0], 6),
        weights_share=round(size[1], 6),
    )
