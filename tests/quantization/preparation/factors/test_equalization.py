"""Equalisation against its formulas, written out in plain NumPy loops, and what it is for."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import onnx
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from onnx import numpy_helper
from support.chains import chains
from support.small import make_model, run

from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model
from qdqtool.models.transforms.rescaling_points import PointKind, find_rescaling_points
from qdqtool.numerics.product import ProductLayout
from qdqtool.quantization.preparation.factors.equalization import MIGRATIONS, PointNoise, ProductNoise, channel_factors
from qdqtool.quantization.preparation.factors.importance import channel_importance
from qdqtool.quantization.preparation.rescaling import rescale
from qdqtool.quantization.statistics.channel_statistics import ChannelStatistics

FOUR_DIGITS = 5e-4
POSITIVE = st.floats(1e-3, 1e3)


def dense(*extents: int, seed: int = 0) -> onnx.ModelProto:
    """x -> Gemm -> Relu -> Gemm -> Relu -> …; what one layer makes larger, the next makes smaller."""
    rng = np.random.default_rng(seed)
    nodes, weights, last, before = [], {}, "x", np.ones(extents[0])
    for index, (k, n) in enumerate(pairwise(extents)):
        factors = np.exp2(rng.uniform(-4, 4, n))
        weights[f"w{index}"] = (rng.normal(size=(k, n)) * factors / before[:, np.newaxis]).astype(np.float32)
        before = factors
        nodes.append(onnx.helper.make_node("Gemm", [last, f"w{index}"], [f"g{index}"]))
        nodes.append(onnx.helper.make_node("Relu", [f"g{index}"], [f"r{index}"]))
        last = f"r{index}"
    nodes[-1].output[0] = "y"
    return make_model(nodes, {"x": (64, extents[0])}, {"y": (64, extents[-1])}, weights)


def observed(proto: onnx.ModelProto, feeds: dict[str, np.ndarray]):
    """The points of a model, statistics of every tensor by a run that returns them all, and a reader of weights."""
    index = ModelIndex.of(Model(proto))
    points, _ = find_rescaling_points(index, PointKind.PRODUCT)
    tensors = {reader.tensor: reader.layout.axis for point in points for reader in point.readers}
    tapped = onnx.ModelProto()
    tapped.CopyFrom(proto)
    del tapped.graph.output[:]
    tapped.graph.output.extend(onnx.ValueInfoProto(name=value.name) for value in tensors)
    arrays = run(tapped, feeds) if tensors else []
    seen = {}
    for (value, axis), array in zip(tensors.items(), arrays, strict=True):
        rows = np.moveaxis(array.astype(np.float64), axis, 0).reshape(array.shape[axis], -1)
        seen[value] = ChannelStatistics(np.abs(rows).max(axis=1), rows.mean(axis=1), (rows**2).mean(axis=1))
    return points, seen


def plain_noise(weight: np.ndarray, rows: np.ndarray, factors: np.ndarray) -> float:
    """The formula in loops, for x @ weight with the channels of x divided by factors."""
    step = max(abs(rows[:, i]).max() / factors[i] for i in range(len(factors)))
    energy = sum((rows[:, i] ** 2).mean() / factors[i] ** 2 for i in range(len(factors)))
    total = 0.0
    for o in range(weight.shape[1]):
        column = [abs(weight[i, o]) * factors[i] for i in range(len(factors))]
        total += step**2 * sum(value**2 for value in column) + max(column) ** 2 * energy
    return total


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**20))
def test_of_all_shares_the_one_is_taken_that_serves_samples_best_that_it_was_not_found_on(seed):
    """Plain loops over shares and halves of the rows, for x -> Gemm -> Relu -> Gemm -> y."""
    rng = np.random.default_rng(seed)
    proto = dense(6, 8, 5, seed=seed)
    feeds = {"x": (rng.normal(size=(64, 6)) * np.exp2(rng.uniform(-3, 3, (64, 1)))).astype(np.float32)}
    (point,), seen = observed(proto, feeds)
    (tensor,) = seen
    first, weight = (numpy_helper.to_array(t).astype(np.float64) for t in proto.graph.initializer)
    rows = np.maximum(feeds["x"].astype(np.float64) @ first, 0)
    halves = [abs(rows[half::2]).max(axis=0) for half in (0, 1)]
    seen[tensor] = replace(seen[tensor], folds=tuple(halves))
    before, reach, gains = plain_noise(weight, rows, np.ones(8)), abs(weight).max(axis=1), {}
    for share in MIGRATIONS:
        after = [plain_noise(weight, rows, channel_factors(half, reach, share)) for half in halves]
        gains[share] = np.mean([10 * np.log10(before / noise) for noise in after])
    found = PointNoise(point, seen).best_factors()
    assert found.gain_db == pytest.approx(max(gains.values()), rel=1e-3, abs=1e-3)
    taken = channel_factors(abs(rows).max(axis=0), reach, max(gains, key=lambda share: gains[share]))
    assume(max(gains.values()) - sorted(gains.values())[-2] > 1e-3)  # else either may be taken
    assert found.factors == pytest.approx(taken, rel=2 * FOUR_DIGITS)


def test_channels_whose_peaks_come_and_go_are_evened_out_less():
    """The same peaks over all samples: once in every part of them, once half of the channels sleeps in one part."""
    proto = dense(6, 8, 5)
    feeds = {"x": np.random.default_rng(1).normal(size=(64, 6)).astype(np.float32)}
    (point,), seen = observed(proto, feeds)
    (tensor,) = seen
    peaks = seen[tensor].peak
    asleep = np.where(np.arange(8) % 2 == 0, peaks, peaks / 50)
    steady, fickle = (
        PointNoise(point, {tensor: replace(seen[tensor], folds=folds)}).best_factors()
        for folds in ((peaks, peaks), (asleep, peaks))
    )
    assert steady.gain_db > fickle.gain_db + 3
    left = [np.ptp(np.log2(peaks / found.factors)) for found in (steady, fickle)]
    assert left[0] < left[1]


@settings(max_examples=25, deadline=None)
@given(chains(), st.integers(0, 2**20))
def test_a_rescaled_network_ends_with_the_same_noise(proto, seed):
    """Whatever factors stood between the layers, they are undone: nothing is left to gain or to lose by them."""
    rng = np.random.default_rng(seed)
    points, seen = observed(proto, {"x": rng.normal(size=(2, 3, 6, 6)).astype(np.float32)})
    assume(points)
    index = ModelIndex.of(Model(proto))
    moved = {point.key: np.exp2(rng.uniform(-4, 4, point.channels)) for point in points}
    own, _ = find_rescaling_points(index, PointKind.PRODUCT)
    other = rescale(index, {point: moved[point.key] for point in own}).model
    after = ModelIndex.of(other)
    others, _ = find_rescaling_points(after, PointKind.PRODUCT)
    by_name = {value.name: found for value, found in seen.items()}
    first = channel_importance(index)
    second = channel_importance(after)
    for point, twin in zip(own, others, strict=True):
        here = {reader.tensor: by_name[reader.tensor.name] for reader in point.readers}
        there = {
            reader.tensor: by_name[reader.tensor.name].divided(np.repeat(moved[twin.key], reader.repeat))
            for reader in twin.readers
        }
        before = PointNoise(point, here, first).best_factors().gain_db
        noise = PointNoise(twin, there, second)
        assert noise.best_factors().gain_db - noise.gain_db(1 / moved[twin.key]) == pytest.approx(before, abs=0.02)


@given(st.lists(st.tuples(POSITIVE, POSITIVE), min_size=1, max_size=8), st.floats(0, 1))
def test_balanced_ranges_follow_the_formula(pairs, migration):
    peaks, reach = (np.array(column) for column in zip(*pairs, strict=True))
    factors = channel_factors(peaks, reach, migration)
    expected = peaks**migration / reach ** (1 - migration)
    assert factors / expected == pytest.approx(np.full(len(pairs), factors[0] / expected[0]), rel=3 * FOUR_DIGITS)
    assert np.exp(np.log(factors).mean()) == pytest.approx(1, rel=FOUR_DIGITS)


def test_silent_and_unread_channels_follow_the_others():
    peaks, reach = np.array([4.0, 1.0, 0.0, 9.0, 0.0]), np.array([1.0, 4.0, 2.0, 0.0, 0.0])
    factors = channel_factors(peaks, reach)
    assert np.isfinite(factors).all()
    assert (factors > 0).all()
    made = reach * factors
    assert made[2] == pytest.approx(np.median(made[:2]), rel=2 * FOUR_DIGITS)
    left = peaks / factors
    assert left[3] == pytest.approx(np.median(left[:2]), rel=2 * FOUR_DIGITS)


def test_a_tensor_that_is_always_zero_is_left_as_it_is():
    assert np.array_equal(channel_factors(np.zeros(3), np.ones(3)), np.ones(3))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**20), st.sampled_from([((6, 4, 3), 1, False), ((6, 2, 3), 2, False), ((4, 3, 3), 2, True)]))
def test_expected_noise_is_what_the_formula_says(seed, layout):
    shape, groups, inputs_first = layout
    rng = np.random.default_rng(seed)
    product = ProductLayout(shape, groups, inputs_first)
    weight, count = rng.normal(size=shape), product.inputs
    seen = ChannelStatistics(rng.uniform(1, 5, count), np.zeros(count), rng.uniform(0.1, 1, count))
    factors = np.exp2(rng.uniform(-2, 2, count))
    ins, outs = count // groups, product.outputs // groups
    step = max(seen.peak / factors)
    total = 0.0
    for group in range(groups):
        for out in range(outs):
            taps = {}
            for i in range(ins):
                channel = group * ins + i
                taps[channel] = (weight[channel, out] if inputs_first else weight[group * outs + out, i]) * factors[
                    channel
                ]
            largest = max(abs(value) for tap in taps.values() for value in tap)
            energy = sum(seen.mean_square[c] / factors[c] ** 2 * len(tap) for c, tap in taps.items())
            total += step**2 * sum(float(np.sum(tap**2)) for tap in taps.values()) + largest**2 * energy
    assert ProductNoise(weight, product, seen).expected(factors) == pytest.approx(total, rel=1e-12)


def test_expected_noise_is_close_to_the_noise_of_rounding():
    """Rounded to int8 for real: within 1 dB of what is expected, with factors and without."""
    rng = np.random.default_rng(5)
    weight = (rng.normal(size=(64, 48)) * np.exp2(rng.uniform(-2, 2, (64, 1)))).astype(np.float64)
    x = rng.uniform(-1, 1, (4096, 64)) * np.exp2(rng.uniform(-2, 2, 64))
    layout = ProductLayout((64, 48), inputs_first=True)
    seen = ChannelStatistics(np.abs(x).max(axis=0), x.mean(axis=0), (x**2).mean(axis=0))
    noise = ProductNoise(weight, layout, seen)
    for factors in (np.ones(64), channel_factors(seen.peak, layout.input_peaks(weight))):
        scaled, columns = x / factors, weight * factors[:, np.newaxis]
        step, steps = np.abs(scaled).max() / 127, np.abs(columns).max(axis=0) / 127
        made = (np.rint(scaled / step) * step) @ (np.rint(columns / steps) * steps)
        measured = float(np.mean((made - x @ weight) ** 2, axis=0).sum())
        assert abs(10 * np.log10(noise.expected(factors) / (12 * 127**2) / measured)) < 1


def test_the_noise_that_uneven_channels_cost_comes_back():
    proto = dense(16, 32, 32, 8)
    feeds = {"x": np.random.default_rng(1).normal(size=(64, 16)).astype(np.float32)}
    points, seen = observed(proto, feeds)
    assert len(points) == 2
    assert all(PointNoise(point, seen).best_factors().gain_db > 15 for point in points)
