"""Find a small layer that alone makes most of the noise, so that it can stay in float.

An example is the Conv with 16 input channels and one output channel that computes the expectation of a distribution
(the DFL head of YOLO). Its weights are 0, 1, .., 15, so that the rounding of int8 shifts every box. It has a thousandth
of the multiply-accumulates of the model, and in float the boxes keep 19 dB more.

First all small layers together are run in float, on one sample. If the worst output gains little by that, this is the
only run. Otherwise the layers are halved, and the half that gains more is taken, until one layer is left. Its gain on
all samples decides.

Halves are run on the sample with the median noise, so that an outlier does not mislead the search. A layer that makes
most of the noise on nearly all samples does so on this one. A BERT-base, which has no such layer, takes 5 runs; with
all samples it took 36.
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
"""Smallest gain of the worst output. With this gain, the layer makes as much noise as all others together."""

LEAST_GAIN_ON_ONE_DB = 1.5
"""Smallest gain on one sample with which the search continues. It is lower because samples differ."""

Measure = Callable[[Setting, Sequence[int]], Noise]
"""Returns the noise on some samples, with all layers quantized except those that the setting switches off."""


def find_dominant_layer(
    layers: Sequence[Layer], index: ModelIndex, whole: Noise, measure: Measure
) -> DominantLayer | None:
    """Find the small layer without which the worst output gains most.

    Returns:
        The layer, or None if the gain of the worst output minus its standard error is below :data:`LEAST_GAIN_DB`.
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
    """Return the recipe with the recorded dominant layer in float, unless the user disables that."""
    layer = recorded_dominant(record) if recipe.preparation.float_layer else None
    if layer is None:
        return recipe
    noise, macs = f"{100 * layer.noise_share:.3g} %", f"{100 * layer.macs_share:.1g} %"
    reason = f"stays in float: makes {noise} of the noise, {macs} of the multiply-accumulates"
    return replace(recipe, selection=replace(recipe.selection, dominant_nodes=dict.fromkeys(layer.nodes, reason)))


def _median_sample(noise: Noise, output: int) -> int:
    """Return the sample with the median ratio of noise to signal at an output; samples without signal are left out."""
    signal: Array = noise.signal[:, output]
    active = np.flatnonzero(signal > 0)
    order = np.argsort(noise.noise[active, output] / signal[active], kind="stable")
    return int(active[order[len(active) // 2]])


def _recorded(layer: Layer, size: tuple[float, float], before: Noise, after: Noise) -> DominantLayer:
    first, second = float(before.noise.sum()), float(after.noise.sum())
    return DominantLayer(
        nodes=tuple((node.scope.path, node.key) for node in layer.nodes),
        # Noise is infinite if the quantized layer makes NaN or infinities.
        noise_share=1.0 if np.isinf(first) else round(1 - second / first, 4),
        macs_share=round(size[0], 6),
        weights_share=round(size[1], 6),
    )
