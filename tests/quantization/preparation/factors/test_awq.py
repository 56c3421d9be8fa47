"""Factors of AWQ: the formula of the paper, the search against all candidates, and rows that choose nothing."""

from dataclasses import replace

import numpy as np
import pytest

from qdqtool.numerics import formats, search
from qdqtool.numerics.affine import fake_quantize
from qdqtool.numerics.derive import ScaleRule
from qdqtool.numerics.granularity import Blocked
from qdqtool.numerics.scheme import QuantScheme
from qdqtool.quantization.preparation.factors.awq import (
    ALPHAS,
    LEAST_GAIN_DB,
    TriedBlockProduct,
    awq_factors,
    searched_factors,
)

INT4 = QuantScheme(formats.get("int4"), Blocked(0, 32))
CHANNELS, ROWS = 64, 400


def product(seed=1, outliers=40.0, channels=CHANNELS, repeat=1):
    """Four channels have large inputs, and weights that are smaller by as much."""
    rng = np.random.default_rng(seed)
    sizes = np.ones(channels)
    sizes[: 4 * repeat] = outliers
    weight = (rng.normal(size=(channels, 48)) / sizes[:, None]).astype(np.float32)
    return TriedBlockProduct(weight, INT4, (rng.normal(size=(ROWS, channels)) * sizes).astype(np.float32), repeat)


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
def test_factors_are_those_of_the_paper(alpha):
    one = product()
    mean = [sum(abs(float(value)) for value in column) / (ROWS // 2) for column in one.rows[: ROWS // 2].T]
    powers = [value**alpha for value in mean]
    expected = np.array(powers) / (max(powers) * min(powers)) ** 0.5
    np.testing.assert_allclose(awq_factors([one], alpha), expected, rtol=1e-6)


def test_channels_that_share_a_factor_and_products_that_share_a_tensor_count_in_the_mean():
    one, twice = product(2), product(3, channels=2 * CHANNELS, repeat=2)
    sizes = np.abs(one.rows[: ROWS // 2].astype(np.float64)).mean(axis=0)
    others = np.abs(twice.rows[: ROWS // 2].astype(np.float64)).mean(axis=0)
    mean = (sizes + (others[0::2] + others[1::2]) / 2) / 2
    np.testing.assert_allclose(awq_factors([one, twice], 1.0), mean / np.sqrt(mean.max() * mean.min()), rtol=1e-6)


def test_a_channel_that_is_always_zero_follows_the_median():
    one = product()
    one.rows[:, 7] = 0
    factors = awq_factors([one], 1.0)
    mean = np.abs(one.rows[: ROWS // 2].astype(np.float64)).mean(axis=0)
    assert factors[7] / factors[8] == pytest.approx(np.median(mean[mean > 0]) / mean[8])
    assert np.all(awq_factors([replace(one, rows=0 * one.rows)], 0.5) == 1)


def nearest_error(one, factors):
    scaled = (one.weight * factors[:, None]).astype(np.float32)
    params, _ = search.least_error(scaled, INT4, ScaleRule())
    restored = fake_quantize(scaled, params.scale, INT4.format, INT4.granularity) / factors[:, None]
    return np.square(one.rows[: ROWS // 2].astype(np.float64) @ (restored - one.weight)).sum()


def test_the_search_takes_the_alpha_with_the_least_error_of_nearest_codes():
    one = product()
    errors = {alpha: nearest_error(one, awq_factors([one], alpha)) for alpha in ALPHAS}
    found = searched_factors([one])
    assert found.alpha == min(errors, key=errors.__getitem__)
    assert found.gain_db > 3
    np.testing.assert_array_equal(found.factors, awq_factors([one], found.alpha))


def test_even_channels_are_left_alone():
    assert searched_factors([product(outliers=1.0)]) is None


def test_a_gain_on_the_rows_that_choose_alone_does_not_count():
    """The channels that are large in the first half are small in the other one, and the reverse."""
    one = product()
    swapped = one.rows.copy()
    swapped[ROWS // 2 :] = np.roll(swapped[ROWS // 2 :], CHANNELS // 2, axis=1)
    weight = np.random.default_rng(8).normal(size=one.weight.shape).astype(np.float32)
    contrary = replace(one, rows=swapped, weight=weight)
    errors = {alpha: nearest_error(contrary, awq_factors([contrary], alpha)) for alpha in ALPHAS}
    assert min(errors.values()) < nearest_error(contrary, np.ones(CHANNELS)) * 10 ** (-LEAST_GAIN_DB / 10)
    assert searched_factors([contrary]) is None


def test_inputs_that_are_all_zero_gain_nothing():
    assert searched_factors([replace(product(), rows=np.zeros((ROWS, CHANNELS), np.float32))]) is None
