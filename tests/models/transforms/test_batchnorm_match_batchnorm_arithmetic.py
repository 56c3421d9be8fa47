"""Folded weights and biases agree with BatchNormalization of exact rationals, applied behind a product."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qdqtool.models.transforms.batchnorm import ChannelAffine, folded_bias, folded_weight

SMALL = st.integers(-8, 8)
SQUARES = st.sampled_from([1, 4, 16, 0.25])


def affine(scale, shift, mean, var, epsilon=0.0):
    return ChannelAffine.of(tuple(np.array(each, np.float32) for each in (scale, shift, mean, var)), epsilon)


@given(st.lists(st.tuples(SMALL, SMALL, SMALL, SQUARES, SMALL), min_size=1, max_size=5), st.sampled_from([1, 2, -0.5]))
def test_the_folded_bias_is_exact_where_the_factors_are(channels, beta):
    scale, shift, mean, var, bias = zip(*channels, strict=True)
    found = folded_bias(np.array(bias, np.float32), affine(scale, shift, mean, var), beta)
    for index, (s, b, m, v, before) in enumerate(channels):
        normalized = (Fraction(beta) * before - m) * Fraction(s) / Fraction(np.sqrt(v)) + b
        assert Fraction(float(found[index])) * Fraction(beta) == normalized


@given(st.lists(st.tuples(SMALL, SMALL, SMALL, SQUARES), min_size=1, max_size=5))
def test_a_missing_bias_is_zero(channels):
    function = affine(*zip(*channels, strict=True))
    zeros = np.zeros(len(channels), np.float32)
    assert np.array_equal(folded_bias(None, function), folded_bias(zeros, function))


def test_the_bias_has_no_factor_unless_one_is_given():
    function = affine([3.0], [1.0], [2.0], [1.0])
    assert folded_bias(np.array([4.0]), function).tolist() == [(4 - 2) * 3 + 1]


@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), st.booleans())
def test_each_weight_is_multiplied_by_the_factor_of_its_channel(groups, outputs, inputs, transposed):
    """A Conv has its output channels on axis 0, a ConvTranspose those of one group on axis 1."""
    shape = (groups * inputs, outputs, 2) if transposed else (groups * outputs, inputs, 2)
    weight = np.arange(1.0, np.prod(shape) + 1).reshape(shape).astype(np.float32)
    count = groups * outputs
    factors = np.arange(1.0, count + 1)
    function = affine(factors, np.zeros(count), np.zeros(count), np.ones(count))
    found = folded_weight(weight, function, 1, groups) if transposed else folded_weight(weight, function, 0)
    assert (found.shape, found.dtype) == (shape, np.float64)
    for place in np.ndindex(*shape):
        channel = (place[0] // inputs) * outputs + place[1] if transposed else place[0]
        assert found[place] == weight[place] * factors[channel]


def test_epsilon_is_added_to_the_variance():
    function = affine([3.0], [1.0], [2.0], [1.0], 3.0)
    assert (function.factor.tolist(), function.mean.tolist(), function.shift.tolist()) == ([1.5], [2.0], [1.0])
    assert function.channels == 1


@pytest.mark.parametrize("position", range(4))
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_no_function(position, value):
    parameters = [[1.0, 2.0], [1.0, 2.0], [1.0, 2.0], [1.0, 2.0]]
    parameters[position][1] = value
    if position == 3 and value == np.inf:
        assert affine(*parameters).factor.tolist() == [1.0, 0.0]
    else:
        assert affine(*parameters) is None


@pytest.mark.parametrize("position", range(4))
def test_parameters_of_different_lengths_are_no_function(position):
    parameters = [[1.0, 2.0]] * 4
    parameters[position] = [1.0]
    assert affine(*parameters) is None


@pytest.mark.parametrize("values", [1.0, [[1.0, 2.0]]])
def test_parameters_that_are_no_vectors_are_no_function(values):
    assert affine(*[values] * 4) is None
