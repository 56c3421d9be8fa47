"""Equalisation against the formula of the paper, written out in plain NumPy loops, and what it is for."""

from itertools import pairwise

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import numpy_helper
from support.chains import chains
from support.small import make_model, run

from qdqtool.algorithms.channels import ChannelStatistics
from qdqtool.algorithms.equalization import balance, equalizing_factors, noise_reduction_db
from qdqtool.algorithms.noise import ProductNoise
from qdqtool.graph.constants import Constants
from qdqtool.graph.joints import JointKind, find_joints
from qdqtool.graph.model import Model
from qdqtool.graph.view import GraphView
from qdqtool.numerics.product import ProductLayout

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
    """The joints of a model, statistics of every tensor by a run that returns them all, and a reader of weights."""
    view = GraphView(Model(proto))
    joints, _ = find_joints(view, Constants(view), JointKind.PRODUCT)
    tensors = {reader.tensor: reader.layout.axis for joint in joints for reader in joint.readers}
    tapped = onnx.ModelProto()
    tapped.CopyFrom(proto)
    del tapped.graph.output[:]
    tapped.graph.output.extend(onnx.ValueInfoProto(name=value.name) for value in tensors)
    arrays = run(tapped, feeds) if tensors else []
    seen = {}
    for (value, axis), array in zip(tensors.items(), arrays, strict=True):
        rows = np.moveaxis(array.astype(np.float64), axis, 0).reshape(array.shape[axis], -1)
        seen[value] = ChannelStatistics(np.abs(rows).max(axis=1), rows.mean(axis=1), (rows**2).mean(axis=1))
    return joints, seen, lambda weight: weight.read(view.model)


def test_factors_are_the_fixed_point_that_the_paper_iterates_towards():
    """s_i = sqrt(r1_i / r2_i) again and again, over all pairs, with r1 the range of the tensor between them."""
    proto = dense(5, 6, 7, 4)
    feeds = {"x": np.random.default_rng(1).normal(size=(64, 5)).astype(np.float32)}
    joints, seen, read = observed(proto, feeds)
    weights = [numpy_helper.to_array(t).astype(np.float64) for t in proto.graph.initializer]
    hidden = [feeds["x"].astype(np.float64)]
    for weight in weights[:-1]:
        hidden.append(np.maximum(hidden[-1] @ weight, 0))
    total = [np.ones(weight.shape[1]) for weight in weights[:-1]]
    for _ in range(100):
        for pair in range(len(weights) - 1):
            for i in range(weights[pair].shape[1]):
                r1 = max(abs(value) for value in hidden[pair + 1][:, i])
                r2 = max(abs(value) for value in weights[pair + 1][i, :])
                s = np.sqrt(r1 / r2) if r1 > 0 else 1.0
                weights[pair][:, i] /= s
                hidden[pair + 1][:, i] /= s
                weights[pair + 1][i, :] *= s
                total[pair][i] *= s
    factors = equalizing_factors(joints, seen, read)
    for joint, expected in zip(joints, total, strict=True):
        live = seen[joint.readers[0].tensor].peak > 0
        ratio = factors[joint][live] / expected[live]
        assert live.sum() > 2
        assert ratio == pytest.approx(np.full(live.sum(), ratio[0]), rel=2 * FOUR_DIGITS)


@settings(max_examples=25, deadline=None)
@given(chains(), st.integers(0, 2**20))
def test_a_rescaled_network_gets_the_factors_that_undo_the_difference(proto, seed):
    """Whatever factors stood between the layers, the equalised network is the same."""
    rng = np.random.default_rng(seed)
    feeds = {"x": rng.normal(size=(2, 3, 6, 6)).astype(np.float32)}
    joints, seen, read = observed(proto, feeds)
    moved = {joint: np.exp2(rng.uniform(-4, 4, joint.channels)) for joint in joints}
    by_node = {joint.writer: by for joint, by in moved.items()}
    seen_after, inputs_by = {}, {}
    for joint, by in moved.items():
        for reader in joint.readers:
            own, repeated = seen[reader.tensor], np.repeat(by, reader.repeat)
            seen_after[reader.tensor] = ChannelStatistics(
                own.peak / repeated, own.mean / repeated, own.mean_square / repeated**2
            )
            inputs_by[reader.weight.node] = repeated

    def read_after(weight):
        return weight.layout.rescaled(read(weight), inputs_by.get(weight.node), by_node.get(weight.node))

    first, second = equalizing_factors(joints, seen, read), equalizing_factors(joints, seen_after, read_after)
    for joint in joints:
        ratio = second[joint] * moved[joint] / first[joint]
        used = np.isfinite(ratio) & (seen[joint.readers[0].tensor].peak.reshape(joint.channels, -1).max(axis=1) > 0)
        assert ratio[used] == pytest.approx(np.full(used.sum(), np.median(ratio[used])), rel=20 * FOUR_DIGITS)


@given(st.lists(st.tuples(POSITIVE, POSITIVE), min_size=1, max_size=8), st.floats(0, 1))
def test_balanced_ranges_follow_the_formula(pairs, migration):
    peaks, reach = (np.array(column) for column in zip(*pairs, strict=True))
    factors = balance(peaks, reach, migration)
    expected = peaks**migration / reach ** (1 - migration)
    assert factors / expected == pytest.approx(np.full(len(pairs), factors[0] / expected[0]), rel=3 * FOUR_DIGITS)
    assert np.exp(np.log(factors).mean()) == pytest.approx(1, rel=FOUR_DIGITS)


def test_silent_and_unread_channels_follow_the_others():
    peaks, reach = np.array([4.0, 1.0, 0.0, 9.0, 0.0]), np.array([1.0, 4.0, 2.0, 0.0, 0.0])
    factors = balance(peaks, reach)
    assert np.isfinite(factors).all()
    assert (factors > 0).all()
    made = reach * factors
    assert made[2] == pytest.approx(np.median(made[:2]), rel=2 * FOUR_DIGITS)
    left = peaks / factors
    assert left[3] == pytest.approx(np.median(left[:2]), rel=2 * FOUR_DIGITS)


def test_a_tensor_that_is_always_zero_is_left_as_it_is():
    assert np.array_equal(balance(np.zeros(3), np.ones(3)), np.ones(3))


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
    for factors in (np.ones(64), balance(seen.peak, layout.input_peaks(weight))):
        scaled, columns = x / factors, weight * factors[:, np.newaxis]
        step, steps = np.abs(scaled).max() / 127, np.abs(columns).max(axis=0) / 127
        made = (np.rint(scaled / step) * step) @ (np.rint(columns / steps) * steps)
        measured = float(np.mean((made - x @ weight) ** 2, axis=0).sum())
        assert abs(10 * np.log10(noise.expected(factors) / (12 * 127**2) / measured)) < 1


def test_the_noise_that_uneven_channels_cost_comes_back():
    proto = dense(16, 32, 32, 8)
    feeds = {"x": np.random.default_rng(1).normal(size=(64, 16)).astype(np.float32)}
    joints, seen, read = observed(proto, feeds)
    factors = equalizing_factors(joints, seen, read)
    assert all(noise_reduction_db(joint, factors, seen, read) > 15 for joint in joints)
