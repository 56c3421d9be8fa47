"""GPTQ: products change less than with nearest codes, and nothing happens where inputs do not go together."""

import numpy as np
import pytest

from qdqtool.numerics import formats, gptq, search
from qdqtool.numerics.affine import dequantize, quantize
from qdqtool.numerics.derive import ScaleRule
from qdqtool.numerics.gptq import DAMPING, MOST_RMS_STEPS, Factor, is_within_bound, round_weights
from qdqtool.numerics.granularity import Blocked, PerTensor
from qdqtool.numerics.scheme import QuantParams, QuantScheme

E4M3 = QuantScheme(formats.get("float8e4m3fn"), PerTensor())
SCHEMES = {
    "int4": QuantScheme(formats.get("int4"), Blocked(0, 32)),
    "nvfp4": QuantScheme(formats.get("float4e2m1"), Blocked(0, 16), scale_scheme=E4M3),
}


def correlated_rows(channels, rows=2000):
    rng = np.random.default_rng(2)
    few = rng.normal(size=(rows, channels // 8)) @ rng.normal(size=(channels // 8, channels))
    return few + 0.1 * rng.normal(size=(rows, channels))


def product_error(x, weights, codes, params):
    restored = dequantize(codes, params.scale, params.scheme.granularity)
    return np.square(x @ (weights.astype(np.float64) - restored)).sum()


@pytest.mark.parametrize("scheme", SCHEMES.values(), ids=SCHEMES)
def test_products_of_correlated_inputs_change_much_less(scheme):
    weights = np.random.default_rng(5).normal(size=(320, 40)).astype(np.float32)
    params, _ = search.least_error(weights, scheme, ScaleRule())
    calibration, fresh = np.split(correlated_rows(320), 2)
    codes = round_weights(weights, params, calibration.T @ calibration)
    nearest = quantize(weights, params.scale, scheme.format, scheme.granularity)
    assert product_error(fresh, weights, codes, params) < 0.5 * product_error(fresh, weights, nearest, params)


def textbook_codes(weights, scale, block, moments):
    """The paper's procedure as it is written: one column after the other, through the inverse of the moments."""
    order = np.argsort(-np.diag(moments), kind="stable")
    damped = moments[np.ix_(order, order)] + 0.05 * np.mean(np.diag(moments)) * np.eye(len(order))
    upper = np.linalg.cholesky(np.linalg.inv(damped)).T
    left, codes = weights[order].astype(np.float64), np.empty(weights.shape, np.int8)
    for row, channel in enumerate(order):
        step = scale[channel // block]
        codes[channel] = np.clip(np.rint(left[row] / step), -8, 7)
        error = (left[row] - codes[channel] * step) / upper[row, row]
        left[row + 1 :] -= np.outer(upper[row, row + 1 :], error)
    return codes


@pytest.mark.parametrize("either_sign", [False, True])
@pytest.mark.parametrize("channels", [64, 320])
def test_codes_are_those_of_the_paper(channels, either_sign):
    weights = np.random.default_rng(9).normal(size=(channels, 24)).astype(np.float32)
    params, _ = search.least_error(weights, SCHEMES["int4"], ScaleRule(either_sign=either_sign))
    x = correlated_rows(channels)
    codes = round_weights(weights, params, x.T @ x).astype(np.int8)
    expected = textbook_codes(weights, params.scale.astype(np.float64), 32, x.T @ x)
    assert np.any(params.scale < 0) == either_sign
    assert np.mean(codes != expected) < 0.001  # a quotient that lies half way may round either way
    again = round_weights(weights, params, x.T @ x).astype(np.int8)
    np.testing.assert_array_equal(codes, again)


def test_moments_in_float32_give_nearly_the_same_codes():
    weights = np.random.default_rng(10).normal(size=(320, 24)).astype(np.float32)
    params, _ = search.least_error(weights, SCHEMES["int4"], ScaleRule())
    calibration, fresh = np.split(correlated_rows(320), 2)
    moments = calibration.T @ calibration
    fine, coarse = (round_weights(weights, params, found) for found in (moments, moments.astype(np.float32)))
    errors = [product_error(fresh, weights, codes, params) for codes in (fine, coarse)]
    assert errors[1] == pytest.approx(errors[0], rel=0.01)


def test_inputs_that_do_not_go_together_leave_the_nearest_codes():
    weights, scheme = np.random.default_rng(6).normal(size=(64, 9)).astype(np.float32), SCHEMES["int4"]
    params, _ = search.least_error(weights, scheme, ScaleRule())
    codes = round_weights(weights, params, np.diag(np.linspace(0.0, 3.0, 64)))
    nearest = quantize(weights, params.scale, scheme.format, scheme.granularity)
    np.testing.assert_array_equal(codes.astype(np.int8), nearest.astype(np.int8))


@pytest.mark.parametrize("factor", [2.0**-60, 2.0**-20, 2.0**20])
def test_codes_do_not_depend_on_the_size_of_the_inputs_where_some_are_always_zero(factor):
    weights, scheme = np.random.default_rng(11).normal(size=(64, 12)).astype(np.float32), SCHEMES["int4"]
    params, _ = search.least_error(weights, scheme, ScaleRule())
    x = correlated_rows(64)
    x[:, ::9] = 0
    codes = round_weights(weights, params, x.T @ x).astype(np.int8)
    nearest = quantize(weights, params.scale, scheme.format, scheme.granularity).astype(np.int8)
    assert np.mean(codes != nearest) > 0.1
    np.testing.assert_array_equal(codes[::9], nearest[::9])
    np.testing.assert_array_equal(round_weights(weights, params, x.T @ x * factor).astype(np.int8), codes)


def test_inputs_that_are_all_zero_leave_the_nearest_codes():
    weights, scheme = np.random.default_rng(6).normal(size=(64, 9)).astype(np.float32), SCHEMES["int4"]
    params, _ = search.least_error(weights, scheme, ScaleRule())
    codes = round_weights(weights, params, np.zeros((64, 64))).astype(np.int8)
    nearest = quantize(weights, params.scale, scheme.format, scheme.granularity).astype(np.int8)
    np.testing.assert_array_equal(codes, nearest)


def test_a_transposed_weight_gets_the_same_codes():
    weights = np.random.default_rng(7).normal(size=(160, 12)).astype(np.float32)
    x = correlated_rows(160)
    found = []
    across = np.ascontiguousarray(weights.T)
    for stored, axis in ((weights, 0), (weights, -2), (across, 1), (across, -1)):
        params, _ = search.least_error(stored, QuantScheme(formats.get("int4"), Blocked(axis, 32)), ScaleRule())
        found.append(round_weights(stored, params, x.T @ x).astype(np.int8))
    for codes in (found[1], found[2].T, found[3].T):
        np.testing.assert_array_equal(codes, found[0])


@pytest.mark.parametrize("swapped", [1, 1000, 1 << 20])
@pytest.mark.parametrize("channels", [1, 128, 301])
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-10), (np.float32, 1e-3)])
def test_a_factor_solves_damped_moments(channels, dtype, tolerance, swapped, monkeypatch):
    monkeypatch.setattr("qdqtool.numerics.gptq.SWAPPED", swapped)
    rng = np.random.default_rng(channels)
    rows = rng.normal(size=(500, channels)) * np.exp(rng.normal(size=channels))
    moments, right = rows.T @ rows, rng.normal(size=(channels, 7))
    expected = np.linalg.solve(moments + DAMPING * np.mean(np.diag(moments)) * np.eye(channels), right)
    found = Factor.of(moments.astype(dtype)).solve(right)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * np.abs(expected).max())


def test_a_matrix_that_float32_makes_indefinite_is_factorized_in_float64(monkeypatch):
    cholesky = np.linalg.cholesky

    def indefinite(matrix):
        if matrix.dtype == np.float32:
            raise np.linalg.LinAlgError
        return cholesky(matrix)

    monkeypatch.setattr(np.linalg, "cholesky", indefinite)
    factor = Factor.of(np.eye(3, dtype=np.float32))
    np.testing.assert_allclose(factor.upper, np.eye(3) * np.sqrt(1 + DAMPING), rtol=1e-6)
    assert factor.upper.dtype == np.float32


# The bound of codes that GPTQ chose: met channel by channel, in pieces of any size.


K, N = 64, 10
SCALE = 0.05


@pytest.mark.parametrize("piece", [1, 3 * K, 1 << 22])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("channel", [0, 5, N - 1])
def test_one_channel_too_far_away_is_found_wherever_it_lies(channel, axis, piece, monkeypatch):
    monkeypatch.setattr(gptq, "PIECE", piece)
    weights = np.random.default_rng(1).uniform(-0.3, 0.3, (K, N)).astype(np.float32)
    scheme = QuantScheme(format=formats.get("int4"), granularity=Blocked(axis, 16))
    shape = (K // 16, N) if axis == 0 else (N, K // 16)
    params = QuantParams(scheme=scheme, scale=np.full(shape, SCALE, np.float32))
    weights = weights if axis == 0 else np.ascontiguousarray(weights.T)
    codes = quantize(weights, params.scale, scheme.format, scheme.granularity)
    restored = dequantize(codes, params.scale, scheme.granularity)
    assert is_within_bound(weights, restored, params)
    one = (slice(None), channel) if axis == 0 else channel
    for steps, within in ((0.98 * MOST_RMS_STEPS, True), (1.02 * MOST_RMS_STEPS, False)):
        moved = restored.copy()
        moved[one] = weights[one] + np.float32(steps * SCALE)
        assert is_within_bound(weights, moved, params) is within
    restored[one] = np.nan
    assert not is_within_bound(weights, restored, params)
