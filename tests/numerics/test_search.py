"""Block scales of the least squared error: against brute force, and the kernels against their twin bit for bit."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from qdqtool import formats
from qdqtool.errors import ArgumentError
from qdqtool.numerics import kernels, search
from qdqtool.numerics.affine import fake_quantize, quantize
from qdqtool.numerics.derive import ScaleRule, scale_from_tensor
from qdqtool.numerics.dtypes import FLOAT16, FLOAT32
from qdqtool.numerics.granularity import Blocked, PerAxis, PerTensor
from qdqtool.numerics.scheme import QuantParams, QuantScheme

INT4, FP4, E4M3 = (formats.get(name) for name in ("int4", "float4e2m1", "float8e4m3fn"))
NVFP4 = QuantScheme(FP4, Blocked(0, 16), scale_scheme=QuantScheme(E4M3, PerTensor()))
FP4_VALUES = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])


def weights(shape=(128, 24), dtype=np.float32, seed=3):
    return (np.random.default_rng(seed).normal(size=shape) * 0.02).astype(dtype)


def squared_error(x, params):
    scheme = params.scheme
    restored = fake_quantize(x, params.scale, scheme.format, scheme.granularity)
    return float(np.square(x.astype(np.float64) - restored.astype(np.float64)).sum())


def least_by_brute_force(column):
    """The least error of a block over a fine grid of scales, by plain float64 arithmetic."""
    peak = np.abs(column).max()
    scales = np.linspace(peak / 12, peak / 6.9, 2000)[:, None]
    codes = np.clip(np.round(column / scales), -8, 7)
    return np.square(column - codes * scales).sum(axis=1).min()


@pytest.mark.parametrize("block", [32, 128])
def test_int4_scales_are_within_a_fiftieth_of_brute_force(block):
    x = weights()
    params, _ = search.least_error(x, QuantScheme(INT4, Blocked(0, block)), ScaleRule())
    blocks = x.astype(np.float64).reshape(-1, block, 24)
    best = sum(least_by_brute_force(column) for part in blocks for column in part.T)
    assert best <= squared_error(x, params) <= 1.02 * best


def exact_least_error(values, low, high, sign):
    """The least of ``sum((x - s * q)**2)`` over all steps of one sign and all codes, in rationals.

    Codes change only at steps where some ``x / s`` is half way between two of them. Between two such steps the error
    is a parabola of the step; the least of all of them is reached, since nearest codes are best for every step.
    """
    x = [Fraction(float(value)) * sign for value in values]
    turns = {2 * value / (2 * code + 1) for value in x for code in range(low, high) if value}
    turns = sorted(step for step in turns if step > 0)
    inside = [(a + b) / 2 for a, b in itertools.pairwise(turns)] + [turns[-1] * 2, turns[0] / 2]
    least = sum(value * value for value in x)
    for step in inside:
        codes = [min(max(round(value / step), low), high) for value in x]
        square = sum(code * code for code in codes)
        if square:
            product = sum(value * code for value, code in zip(x, codes, strict=True))
            least = min(least, sum(value * value for value in x) - product * product / square if product > 0 else least)
    return least


@pytest.mark.parametrize("either_sign", [False, True])
def test_blocks_are_near_the_least_error_over_signs_steps_and_codes(either_sign):
    x = np.random.default_rng(0).normal(size=(32, 16)).astype(np.float32)
    params, _ = search.least_error(x, QuantScheme(INT4, Blocked(0, 32)), ScaleRule(either_sign=either_sign))
    codes = quantize(x, params.scale, INT4, Blocked(0, 32)).astype(int)
    least = error = Fraction(0)
    for column, chosen, step in zip(x.T, codes.T, params.scale[0], strict=True):
        own = sum(
            (Fraction(float(v)) - Fraction(float(step)) * int(q)) ** 2 for v, q in zip(column, chosen, strict=True)
        )
        best = min(exact_least_error(column, -8, 7, sign) for sign in ((1, -1) if either_sign else (1,)))
        assert best <= own * (1 + Fraction(1, 10**6))  # the stored step is rounded
        least, error = least + best, error + own
    assert error <= Fraction(103, 100) * least  # 0.13 dB: 0.8 % for not shrinking, the rest for 8 candidates


@pytest.mark.parametrize("either_sign", [False, True])
def test_what_stands_for_the_values_is_not_smaller_on_the_whole(either_sign):
    x, scheme = weights((1024, 64)).astype(np.float64), QuantScheme(INT4, Blocked(0, 32))
    params, _ = search.least_error(x.astype(np.float32), scheme, ScaleRule(either_sign=either_sign))
    restored = fake_quantize(x.astype(np.float32), params.scale, INT4, Blocked(0, 32)).astype(np.float64)
    shrunk = 1 - (x * restored).sum() / (x * x).sum()
    error = np.square(x - restored).sum() / (x * x).sum()
    assert 0 <= shrunk < 0.3 * error  # all of it with the step of the least error; a longer step rounds some anew


@pytest.mark.parametrize("block", [32, 128])
@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT16], ids=str)
def test_either_sign_gives_the_lowest_code_to_the_largest_and_gains_a_third_of_a_decibel(block, dtype):
    x, scheme = weights((256, 64), dtype), QuantScheme(INT4, Blocked(0, block))
    one, _ = search.least_error(x, scheme, ScaleRule(dtype=dtype))
    either, _ = search.least_error(x, scheme, ScaleRule(dtype=dtype, either_sign=True))
    assert np.all(one.scale > 0)
    parts = x.astype(np.float64).reshape(-1, block, 64)
    peaks = np.take_along_axis(parts, np.abs(parts).argmax(axis=1)[:, None], axis=1)[:, 0]
    np.testing.assert_array_equal(np.sign(either.scale), -np.sign(peaks))
    assert 10 * np.log10(squared_error(x, one) / squared_error(x, either)) > 0.3


def test_only_block_scales_of_signed_integers_may_be_negative():
    rule = ScaleRule(either_sign=True)
    two_level, _ = search.least_error(weights(), NVFP4, rule)
    assert np.all(two_level.scale > 0)
    for scheme in (QuantScheme(INT4, PerAxis(0)), QuantScheme(FP4, Blocked(0, 32)), QuantScheme(INT4, PerTensor())):
        with pytest.raises(ArgumentError, match="greater than 0"):
            QuantParams(scheme, np.full(scheme.granularity.scale_shape((64, 24)), -1, np.float32))


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_two_level_scales_lie_on_their_grid_and_beat_the_largest_magnitude(dtype):
    x = weights(dtype=dtype)
    rule = ScaleRule(dtype=np.dtype(dtype))
    params, amax = search.least_error(x, NVFP4, rule)
    assert params.scale.dtype == dtype
    assert params.scale_params is not None
    stored = params.scale.astype(FLOAT32)
    codes = quantize(stored, params.scale_params.scale, E4M3, PerTensor())
    exact = codes.astype(np.float64) * float(params.scale_params.scale)
    np.testing.assert_array_equal(exact.astype(np.float32).astype(dtype), params.scale)
    np.testing.assert_array_equal(amax, np.abs(x.reshape(8, 16, 24)).max(axis=1))
    assert squared_error(x, params) < 0.9 * squared_error(x.astype(np.float32), scale_from_tensor(x, NVFP4))


def test_float4_candidates_are_judged_by_the_values_of_the_format():
    v = np.linspace(-7, 7, 4001).astype(np.float32)
    nearest = np.clip(search._nearest_float4(v), -6, 6)
    distance = np.abs(np.abs(v)[:, None] - FP4_VALUES)
    np.testing.assert_allclose(np.abs(np.abs(nearest) - np.abs(v)), distance.min(axis=1), atol=1e-6)


SCHEMES = [
    QuantScheme(INT4, Blocked(0, 32)),
    QuantScheme(INT4, Blocked(1, 32)),
    QuantScheme(INT4, Blocked(1, 7)),
    QuantScheme(INT4, Blocked(0, 50)),
    NVFP4,
]


@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT16], ids=str)
@pytest.mark.parametrize("either_sign", [False, True])
@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
def test_kernels_have_the_bits_of_the_twin(scheme, either_sign, dtype, monkeypatch):
    pytest.importorskip("numba")
    x, rule = weights((120, 130), dtype), ScaleRule(dtype=dtype, either_sign=either_sign)
    x[:, 5] = 0
    x[:, 7] = x[0, 7]
    x[3, 9] = 1e4
    found = []
    for threshold in (0, 1 << 60):
        monkeypatch.setattr(search, "WORTH_IT", threshold)
        found.append(search.least_error(x, scheme, rule))
    (compiled, peaks), (twin, twin_peaks) = found
    np.testing.assert_array_equal(compiled.scale, twin.scale)
    np.testing.assert_array_equal(peaks, twin_peaks)


@pytest.mark.parametrize("threshold", [0, 1 << 60])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("scheme", [SCHEMES[0], NVFP4], ids=str)
def test_what_is_not_finite_is_refused(scheme, value, dtype, threshold, monkeypatch):
    monkeypatch.setattr(search, "WORTH_IT", threshold)
    x = weights(dtype=dtype)
    x[70, 3] = value
    with pytest.raises(ArgumentError, match="NaN or infinite"):
        search.least_error(x, scheme, ScaleRule(dtype=np.dtype(dtype)))


def test_zeros_get_the_scale_one_and_tiny_halves_the_smallest_normal_one():
    x = np.zeros((64, 3), np.float16)
    x[:, 1] = np.float16(6e-8)
    params, _ = search.least_error(x, SCHEMES[0], ScaleRule(dtype=FLOAT16))
    np.testing.assert_array_equal(params.scale, np.float16([[1, 2.0**-14, 1]] * 2))


@pytest.mark.parametrize("scheme", [QuantScheme(E4M3, Blocked(0, 16)), QuantScheme(INT4, PerAxis(0))], ids=str)
def test_other_schemes_are_refused(scheme):
    with pytest.raises(ArgumentError, match="symmetric block schemes"):
        search.least_error(weights(), scheme, ScaleRule())


HALF_GRANULARITIES = [PerTensor(), PerAxis(0), PerAxis(1), Blocked(0, 32), Blocked(1, 100)]


@pytest.mark.parametrize("granularity", HALF_GRANULARITIES, ids=str)
@pytest.mark.parametrize("name", ["int8", "uint8", "int4", "int2", "float4e2m1"])
def test_half_codes_have_the_bits_of_the_twin_for_every_half(name, granularity, monkeypatch):
    pytest.importorskip("numba")
    rng, fmt = np.random.default_rng(1), formats.get(name)
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    x = np.concatenate([every, rng.normal(size=1 << 16).astype(np.float16)]).reshape(512, 256)
    shape = granularity.scale_shape(x.shape)
    scale = np.asarray(np.abs(rng.normal(size=shape)) * 0.3 + 1e-7, np.float16)
    codes = kernels.quantize_half(x, scale, fmt, granularity)
    monkeypatch.setattr(kernels, "wanted_half", lambda *_: False)
    twin = quantize(x, scale, fmt, granularity)
    np.testing.assert_array_equal(codes.view(np.uint8), twin.view(np.uint8))
