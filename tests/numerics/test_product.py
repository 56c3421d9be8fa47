"""The layout of weights that multiply, against what the operators compute in ONNX Runtime."""

import numpy as np
import pytest
from onnx import helper
from support.small import make_model, run

from qdqtool.numerics.product import ProductLayout

RNG = np.random.default_rng(8)
CASES = {
    "MatMul": ("MatMul", {}, (6, 4), ProductLayout((6, 4), inputs_first=True), (5, 6)),
    "Gemm with transB": ("Gemm", {"transB": 1}, (4, 6), ProductLayout((4, 6)), (5, 6)),
    "Conv": ("Conv", {}, (4, 6, 3, 3), ProductLayout((4, 6, 3, 3)), (2, 6, 5, 5)),
    "grouped Conv": ("Conv", {"group": 2}, (4, 3, 3, 3), ProductLayout((4, 3, 3, 3), 2), (2, 6, 5, 5)),
    "depthwise Conv": ("Conv", {"group": 6}, (12, 1, 3), ProductLayout((12, 1, 3), 6), (2, 6, 5)),
    "ConvTranspose": ("ConvTranspose", {}, (6, 4, 3), ProductLayout((6, 4, 3), 1, inputs_first=True), (2, 6, 5)),
    "grouped ConvTranspose": (
        "ConvTranspose",
        {"group": 3},
        (6, 4, 3),
        ProductLayout((6, 4, 3), 3, inputs_first=True),
        (2, 6, 5),
    ),
}
ALL = pytest.mark.parametrize("name", CASES)


def product(name, x, weight):
    """What the operator makes of activations and a weight."""
    op, attributes, *_ = CASES[name]
    node = helper.make_node(op, ["x", "w"], ["y"], **attributes)
    model = make_model([node], {"x": x.shape, "w": weight.shape}, {"y": tuple("abcd"[: x.ndim])}, {})
    return run(model, {"x": x.astype(np.float32), "w": weight.astype(np.float32)})[0]


def of_channels(factors, rank):
    return factors.reshape(1, -1, *[1] * (rank - 2))


def drawn(name):
    _, _, shape, layout, x_shape = CASES[name]
    return RNG.normal(size=shape), RNG.normal(size=x_shape), layout


@ALL
def test_channels_are_counted_as_the_operator_counts_them(name):
    weight, x, layout = drawn(name)
    assert layout.inputs == x.shape[1]
    assert layout.outputs == product(name, x, weight).shape[1]


@ALL
def test_multiplied_inputs_and_divided_outputs_are_what_the_weight_takes_over(name):
    weight, x, layout = drawn(name)
    inputs, outputs = RNG.uniform(0.5, 2, layout.inputs), RNG.uniform(0.5, 2, layout.outputs)
    expected = product(name, x * of_channels(inputs, x.ndim), weight) / of_channels(outputs, x.ndim)
    found = product(name, x, layout.rescaled(weight, inputs, outputs))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@ALL
def test_without_factors_the_weight_stays_as_it_is(name):
    weight, _, layout = drawn(name)
    rescaled = layout.rescaled(weight.astype(np.float32), None, None)
    assert rescaled.dtype == np.float64
    np.testing.assert_array_equal(rescaled, weight.astype(np.float32))


@ALL
def test_the_peak_of_an_input_channel_is_the_largest_answer_to_a_unit_impulse(name):
    """An impulse on one channel gives the weights of that channel as outputs, each once (or not at all at a border)."""
    weight, x, layout = drawn(name)
    outputs = RNG.uniform(0.5, 2, layout.outputs)
    peaks = layout.input_peaks(weight, outputs)
    assert peaks.shape == (layout.inputs,)
    for channel in range(layout.inputs):
        impulse = np.zeros(x.shape)
        impulse[(0, channel, *[size // 2 for size in x.shape[2:]])] = 1
        answer = product(name, impulse, weight) / of_channels(outputs, x.ndim)
        assert np.abs(answer).max() == pytest.approx(peaks[channel], rel=1e-6)


@ALL
def test_the_canonical_form_is_a_view_that_goes_back(name):
    weight, _, layout = drawn(name)
    canonical = layout.canonical(weight)
    per_group = layout.outputs // layout.groups, layout.inputs // layout.groups
    assert canonical.shape[:3] == (layout.groups, *per_group)
    assert np.shares_memory(canonical, weight)
    np.testing.assert_array_equal(layout.stored(canonical), weight)
