"""Scales from ranges and tensors: the published formulas, their edges, and the noise they are known to leave."""

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from support import numbers, rational
from support.metrics import sqnr_db

from qdqtool.errors import ArgumentError
from qdqtool.numerics import formats
from qdqtool.numerics.affine import fake_quantize, quantize
from qdqtool.numerics.derive import (
    SCALE_RANGE,
    PowerOfTwo,
    ScaleRule,
    excess_noise,
    round_scale,
    scale_by_mse,
    scale_from_range,
    scale_from_tensor,
    smallest_positive,
)
from qdqtool.numerics.granularity import Blocked, PerAxis, PerTensor
from qdqtool.numerics.scheme import QuantParams, QuantScheme

BF16, E8M0 = np.dtype(ml_dtypes.bfloat16), np.dtype(ml_dtypes.float8_e8m0fnu)
MX_SCALE = QuantScheme(formats.get("float8e8m0"), PerTensor())
NV_SCALE = QuantScheme(formats.get("float8e4m3fn"), PerTensor())
FLOOR = ScaleRule(power_of_two=PowerOfTwo.FLOOR)


def scheme(name, granularity=None, *, symmetric=True, scales=None):
    return QuantScheme(formats.get(name), granularity or PerTensor(), symmetric, scales)


NVFP4 = scheme("float4e2m1", Blocked(1, 16), scales=NV_SCALE)


@pytest.mark.parametrize(
    ("name", "rule", "expected"),
    [
        ("int8", ScaleRule(), 6.35 / 127),
        ("int8", ScaleRule(divisor=128), 6.35 / 128),
        ("int8", ScaleRule(divisor=127.5), 6.35 / 127.5),
        ("int4", ScaleRule(), 6.35 / 7),
        ("float8e4m3fn", ScaleRule(), 6.35 / 448),
        ("float8e5m2", ScaleRule(), 6.35 / 57344),
        ("int8", ScaleRule(power_of_two=PowerOfTwo.CEIL), 2.0**-4),
    ],
)
def test_symmetric_scales_are_the_largest_magnitude_over_the_divisor(name, rule, expected):
    params = scale_from_range(-6.35, 3, scheme(name), rule)
    assert params.scale == np.float32(expected)
    assert params.zero_point is None


@pytest.mark.parametrize(
    ("name", "ends", "narrow", "scale", "zero_point"),
    [
        ("uint8", (-1.0, 3.0), False, 4 / 255, 64),
        ("int8", (2.0, 3.0), False, 3 / 255, -128),
        ("uint8", (-0.5, -0.25), False, 0.5 / 255, 255),
        # The narrow range leaves the lowest code out, which unsigned integers have not.
        ("int8", (-1.0, 1.0), True, 2 / 254, 0),
        ("uint8", (-1.0, 3.0), True, 4 / 255, 64),
    ],
)
def test_asymmetric_parameters_cover_the_range_with_zero_in_it(name, ends, narrow, scale, zero_point):
    params = scale_from_range(*ends, scheme(name, symmetric=False), ScaleRule(narrow_range=narrow))
    assert (params.scale, params.zero_point) == (np.float32(scale), zero_point)
    assert params.zero_point.dtype == np.dtype(name)


def test_a_range_from_zero_on_needs_no_sign():
    params = scale_from_range([0.0, 0.5], [0.5, 1.0], scheme("uint8", PerAxis(0)))
    np.testing.assert_array_equal(params.scale, np.float32([0.5 / 255, 1 / 255]))


@pytest.mark.parametrize("dtype", SCALE_RANGE, ids=str)
def test_nothing_but_zero_has_scale_one(dtype):
    assert scale_from_range(0, 0, scheme("int8"), ScaleRule(dtype=dtype)).scale.astype(np.float32) == 1


@pytest.mark.parametrize("dtype", SCALE_RANGE, ids=str)
@pytest.mark.parametrize("amax", [1e-300, 1e-44, 1e38, 1e300])
def test_scales_stay_finite_positive_and_normal(dtype, amax):
    scale = scale_from_range(-amax, amax, scheme("int8"), ScaleRule(dtype=dtype)).scale
    assert scale.dtype == dtype
    assert SCALE_RANGE[dtype][0] <= scale.astype(np.float64) <= SCALE_RANGE[dtype][1]


@pytest.mark.parametrize("dtype", SCALE_RANGE, ids=str)
def test_scales_end_at_the_smallest_normal_and_the_largest_number_of_their_type(dtype):
    """For float8e8m0 at the smallest normal float32."""
    finfo = ml_dtypes.finfo(dtype)
    smallest = np.finfo(np.float32).smallest_normal if dtype == E8M0 else finfo.smallest_normal
    ends = round_scale(np.float64([2.0**-200, 2.0**200]), dtype).astype(np.float64)
    np.testing.assert_array_equal(ends, [float(smallest), float(finfo.max)])


@pytest.mark.parametrize("name", numbers.REAL)
def test_scales_are_rounded_once_to_their_storage_type(name):
    real = np.random.default_rng(1).uniform(1e-3, 10, 500)
    real[:3] = [1 + 2**-8 + 2**-40, 1 + 2**-11 + 2**-50, 1 + 2**-24 + 2**-52]
    stored = round_scale(real, np.dtype(numbers.REAL[name]))
    expected = [rational.round_real(rational.Real(Fraction(value)), name).size for value in real]
    assert [Fraction(float(value)) for value in stored] == expected


@pytest.mark.parametrize("amax", [0.3, 448.0, 449.0, 447.9, 1.0, 2**-30 * 1.75])
def test_power_of_two_scales_follow_their_formulas(amax):
    mx = scheme("float8e4m3fn", scales=MX_SCALE)
    floor = scale_from_range(-amax, amax, mx, FLOOR).scale
    ceil = scale_from_range(-amax, amax, mx).scale
    assert floor.dtype == ceil.dtype == E8M0
    assert float(floor) == 2.0 ** (math.floor(math.log2(amax)) - 8)
    assert float(ceil) == 2.0 ** math.ceil(math.log2(amax / 448))
    assert amax / float(ceil) <= 448


@pytest.mark.parametrize("granularity", [PerTensor(), PerAxis(0), PerAxis(-1), Blocked(1, 4), Blocked(0, 2)], ids=str)
def test_scales_of_a_tensor_are_those_of_each_group(granularity):
    x = np.random.default_rng(2).normal(size=(5, 6)).astype(np.float32)
    params = scale_from_tensor(x, scheme("int8", granularity))
    expected = np.zeros(granularity.scale_shape(x.shape))
    for index in np.ndindex(x.shape):
        where = rational.parameter_index(index, granularity)
        expected[where] = max(expected[where], abs(float(x[index])))
    np.testing.assert_array_equal(params.scale, np.float32(expected / 127))


def test_what_is_not_finite_is_left_out_of_the_range():
    x = np.array([np.nan, np.inf, -2.54, 1.0], np.float32)
    assert scale_from_tensor(x, scheme("int8")).scale == np.float32(np.float32(2.54) / np.float64(127))


@pytest.mark.parametrize("granularity", [PerTensor(), PerAxis(1), Blocked(1, 4), Blocked(0, 4)], ids=str)
def test_empty_tensors_have_scale_one(granularity):
    params = scale_from_tensor(np.zeros((0, 6), np.float32), scheme("int8", granularity))
    np.testing.assert_array_equal(params.scale, np.ones(granularity.scale_shape((0, 6))))


def test_nvfp4_scales_are_fp8_times_one_float32():
    """Source: NVIDIA's two-level recipe: global = amax / (6 * 448), block = fp8(amax_block / 6 / global)."""
    x = np.random.default_rng(3).normal(size=(4, 64)).astype(np.float32)
    params = scale_from_tensor(x, NVFP4)
    outer = params.scale_params.scale
    assert outer == np.float32(np.abs(x).max().astype(np.float64) / 2688)
    amax = np.abs(x.reshape(4, 4, 16)).max(axis=2).astype(np.float64)
    codes = np.float32(amax / 6 / np.float64(outer)).astype(ml_dtypes.float8_e4m3fn)
    np.testing.assert_array_equal(params.scale, codes.astype(np.float32) * outer)
    again = quantize(params.scale, outer, formats.get("float8e4m3fn"), PerTensor())
    np.testing.assert_array_equal(again.view(np.uint8), codes.view(np.uint8))


@pytest.mark.parametrize("size", [1e-4, 1.0, 300.0])
def test_nvfp4_scales_of_blocks_of_very_different_sizes_are_the_nearest_codes_above_zero(size):
    x = np.random.default_rng(9).normal(size=(30, 16)).astype(np.float32)
    x *= np.float32(size) * np.exp2(-np.arange(30, dtype=np.float32))[:, None]
    params = scale_from_tensor(x, NVFP4)
    outer = params.scale_params.scale
    assert outer == np.float32(np.abs(x).max().astype(np.float64) / 2688)
    for row, scale in zip(x, params.scale[:, 0], strict=True):
        real = np.float32(np.abs(row).max().astype(np.float64) / 6 / np.float64(outer))
        code = max(1, rational.quantize_one(rational.real(real), rational.real(1), "float8e4m3fn"))
        value = {code: size for size, code in rational.magnitudes("float8e4m3fn").items()}[code]
        assert scale == np.float32(float(value)) * outer


@pytest.mark.parametrize("size", [1e-5, 0.003, 0.1, 1.0, 7.0])
def test_nvfp4_scales_under_a_given_scale_of_scales(size):
    """The one of a calibration: it need not fit these values, so that codes saturate, or are the smallest."""
    x = np.random.default_rng(4).normal(size=(12, 16)).astype(np.float32)
    x *= np.exp2(np.arange(-6, 6, dtype=np.float32))[:, None]
    x[0] = 0
    outer = QuantParams(NV_SCALE, np.float32(size).reshape(()))
    params = scale_from_tensor(x, NVFP4, outer=outer)
    assert params.scale_params is outer
    value_of = {code: value for value, code in rational.magnitudes("float8e4m3fn").items()}
    for row, scale in zip(x, params.scale[:, 0], strict=True):
        real = Fraction(float(np.abs(row).max())) / 6 / Fraction(float(np.float32(size)))
        code = max(1, rational.float_code(rational.Real(real), "float8e4m3fn"))
        expected = rational.dequantize_one(value_of[code], rational.real(np.float32(size)))
        assert Fraction(float(scale)) == expected.value
    amax = np.abs(x).max(axis=1, keepdims=True)
    same = scale_from_range(-amax, amax, NVFP4, outer=outer)
    np.testing.assert_array_equal(same.scale, params.scale)
    assert same.scale_params is outer


def test_nvfp4_scales_saturate_at_the_largest_code_of_a_given_scale_of_scales():
    outer = QuantParams(NV_SCALE, np.float32(0.5).reshape(()))
    params = scale_from_range([[-1e4], [-3.0], [-1e-9]], [[1e4], [3.0], [1e-9]], NVFP4, outer=outer)
    np.testing.assert_array_equal(params.scale, np.float32([[448 * 0.5], [1 * 0.5], [2.0**-9 * 0.5]]))


def test_the_scale_of_scales_that_is_derived_is_the_one_that_is_used():
    x = np.random.default_rng(5).normal(size=(4, 64)).astype(np.float32)
    derived = scale_from_tensor(x, NVFP4)
    given = scale_from_tensor(x, NVFP4, outer=derived.scale_params)
    np.testing.assert_array_equal(given.scale, derived.scale)
    half = QuantParams(NV_SCALE, derived.scale_params.scale / 2)
    assert not np.array_equal(scale_from_tensor(x, NVFP4, outer=half).scale, derived.scale)


def test_nvfp4_scales_of_zeros_are_the_smallest_code_times_one():
    params = scale_from_tensor(np.zeros((2, 32), np.float32), NVFP4)
    assert params.scale_params.scale == 1
    np.testing.assert_array_equal(params.scale, np.full((2, 2), 2.0**-9, np.float32))


@pytest.mark.parametrize("name", numbers.QUANTIZED)
def test_the_smallest_positive_code_is_that_of_the_layout(name):
    expected = 1 if name in numbers.INTEGER else min(size for size in rational.magnitudes(name) if size)
    assert smallest_positive(formats.get(name)) == float(expected)


def test_nvfp4_block_scales_are_never_zero():
    x = np.zeros((2, 32), np.float32)
    assert (scale_from_tensor(x, NVFP4).scale > 0).all()
    x[0, 0] = 1e4
    x[1, 0] = 1e-6
    assert (scale_from_tensor(x, NVFP4).scale > 0).all()


SQNR = [
    (scheme("int8"), ScaleRule(), 38.9, 32.2),
    (scheme("int8", PerAxis(0)), ScaleRule(), 42.1, 38.2),
    (scheme("int4", PerAxis(0)), ScaleRule(), 16.9, 13.2),
    (scheme("int4", Blocked(1, 128)), ScaleRule(), 18.6, 15.9),
    (scheme("int4", Blocked(1, 32)), ScaleRule(), 20.3, 18.3),
    (scheme("int4", Blocked(1, 32)), ScaleRule(divisor=8), 20.6, 18.7),
    (scheme("float8e4m3fn"), ScaleRule(), 31.5, 31.5),
    (scheme("float8e5m2"), ScaleRule(), 25.6, 25.6),
    (scheme("float8e4m3fn", Blocked(1, 32), scales=MX_SCALE), FLOOR, 30.6, 30.0),
    (scheme("float8e4m3fn", Blocked(1, 32), scales=MX_SCALE), ScaleRule(), 31.5, 31.5),
    (scheme("float4e2m1", Blocked(1, 32), scales=MX_SCALE), FLOOR, 18.8, 17.9),
    (NVFP4, ScaleRule(), 20.4, 20.7),
]


@pytest.mark.parametrize(("how", "rule", "gaussian", "laplace"), SQNR, ids=str)
def test_signal_to_noise_of_known_distributions(how, rule, gaussian, laplace):
    """Bands from an independent measurement (1024 x 1024); a wrong step or a clip moves them by more than 0.2 dB."""
    rng = np.random.default_rng(0)
    for x, expected in ((rng.normal(size=(512, 1024)), gaussian), (rng.laplace(size=(512, 1024)), laplace)):
        values = x.astype(np.float32)
        params = scale_from_tensor(values, how, rule)
        found = sqnr_db(values, fake_quantize(values, params.scale, how.format, how.granularity))
        # one scale per tensor depends on the one largest sample, so its band is wider
        assert found == pytest.approx(expected, abs=1.0 if isinstance(how.granularity, PerTensor) else 0.2)


SEARCHED = [scheme("int4", Blocked(1, 32)), scheme("int8"), scheme("uint4", PerAxis(0), symmetric=False), NVFP4]


@pytest.mark.parametrize("how", SEARCHED, ids=str)
def test_the_search_is_never_worse_than_the_full_range(how):
    x = np.random.default_rng(4).standard_t(3, size=(16, 128)).astype(np.float32)
    found, full = scale_by_mse(x, how), scale_from_tensor(x, how)
    error = [
        np.square(x - fake_quantize(x, p.scale, how.format, how.granularity, p.zero_point)).sum() for p in (found, full)
    ]
    assert error[0] <= error[1]


def test_the_search_finds_the_best_candidate_of_every_group():
    x = np.random.default_rng(5).standard_t(3, size=(8, 64)).astype(np.float32)
    how = scheme("int4", PerAxis(0))
    for row, scale in zip(x, scale_by_mse(x, how).scale, strict=True):
        candidates = (np.abs(row).max().astype(np.float64) * np.linspace(1.0, 0.2, 41) / 7).astype(np.float32)
        steps = np.clip(np.rint(row / candidates[:, None]), -8, 7)
        errors = np.square(row.astype(np.float64) - steps.astype(np.float32) * candidates[:, None]).sum(axis=1)
        assert scale == candidates[np.argmin(errors)]


def test_the_search_finds_the_best_scale_and_zero_point_of_every_group():
    x = np.random.default_rng(5).standard_t(3, size=(8, 64)).astype(np.float32) + np.float32(0.5)
    found = scale_by_mse(x, scheme("uint4", PerAxis(0), symmetric=False))
    chosen = []
    for row, scale, zero in zip(x.astype(np.float64), found.scale, found.zero_point, strict=True):
        candidates = []
        for factor in np.linspace(1.0, 0.2, 41):
            low, high = row.min() * factor, row.max() * factor
            step = np.float32((high - low) / 15)
            offset = int(np.clip(np.rint(-low / np.float64(step)), 0, 15))
            codes = np.clip(np.rint(row.astype(np.float32) / step) + offset, 0, 15)
            error = np.square(row - (codes - offset).astype(np.float32) * step).sum()
            candidates.append((error, step, offset))
        assert (scale, int(zero)) == min(candidates, key=lambda found: found[0])[1:]
        chosen.append([error for error, *_ in candidates].index(min(candidates)[0]))
    assert len(set(chosen)) > 3  # groups of one tensor end at different candidates


@pytest.mark.parametrize("size", [1.0, 1e-9])
@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_does_not_count_in_the_search(special, size):
    x = np.random.default_rng(6).standard_t(3, size=(8, 64)).astype(np.float32) * np.float32(size)
    more = np.concatenate([x, np.full((8, 1), special, np.float32)], axis=1)
    how = scheme("int4", PerAxis(0))
    expected = scale_by_mse(x, how).scale
    assert np.any(expected < scale_from_tensor(x, how).scale)
    np.testing.assert_array_equal(scale_by_mse(more, how).scale, expected)


def test_the_search_keeps_the_larger_range_on_a_tie():
    """8 is on the grid of steps of 1 and of 0.5."""
    params = scale_by_mse(np.float32([8]), scheme("int8"), ScaleRule(divisor=8), shrink=[1.0, 0.5])
    assert params.scale == 1


def test_the_search_refuses_ranges_that_its_scheme_does_not_cover():
    with pytest.raises(ArgumentError, match="range begins at -1; uint8 without zero point must begin at 0"):
        scale_by_mse(np.float32([-1, 1]), scheme("uint8"))


@pytest.mark.parametrize(
    ("low", "high", "how", "message"),
    [
        (1, 0, scheme("int8"), "range is 1 to 0; both ends must be finite and in order"),
        ([0, np.nan], [1, 1], scheme("int8", PerAxis(0)), r"range is nan to 1 at index \[1\]"),
        (0, np.inf, scheme("int8"), "range is 0 to inf"),
        (-1, 1, scheme("uint8"), "range begins at -1; uint8 without zero point must begin at 0"),
        ([-1, 0, -2], [1, 1, 1], scheme("uint8", PerAxis(0)), "range begins at -2; uint8"),
        (-1, 1, scheme("float8e4m3fn", symmetric=False), "asymmetric; float8e4m3fn allows only the zero point 0"),
    ],
)
def test_ranges_that_cannot_be_covered_are_refused(low, high, how, message):
    with pytest.raises(ArgumentError, match=message):
        scale_from_range(low, high, how)


def test_an_empty_search_is_refused():
    with pytest.raises(ArgumentError, match="shrink is empty"):
        scale_by_mse(np.ones(3, np.float32), scheme("int8"), shrink=[])


def test_scales_of_scales_are_per_tensor():
    nested = scheme("float4e2m1", Blocked(0, 16), scales=QuantScheme(formats.get("float8e4m3fn"), PerAxis(0)))
    with pytest.raises(ArgumentError, match="only a per-tensor scale of scales"):
        scale_from_tensor(np.ones((16, 2), np.float32), nested)


# --- error beyond that of scales that just hold the values ---

NORMAL = np.random.default_rng(9).normal(size=(64, 32)).astype(np.float32)


def excess(x, scale, fmt="int8", granularity=PerTensor(), zero_point=None):  # noqa: B008 -- it cannot be changed
    whole, groups, holding = excess_noise(x, np.asarray(scale), formats.get(fmt), granularity, zero_point)
    assert groups.shape == holding.shape == np.shape(scale)
    return whole, groups, holding


def by_hand(x, scale, used, high):
    """The excess of integers with one scale, element by element."""
    noise = sum((v - min(max(round(v / scale), -high - 1), high) * scale) ** 2 for v in x.astype(float).reshape(-1))
    return 10 * math.log10(noise / (x.size * used**2 / 12))


@pytest.mark.parametrize(
    ("factor", "used"), [(0.5, 1.0), (0.9, 1.0), (1.0, 1.0), (1.7, 1.7), (2.0, 2.0), (3.0, 2.0), (200.0, 2.0)]
)
def test_the_excess_is_that_over_a_scale_that_holds_the_values_or_up_to_twice_that_scale(factor, used):
    holding = np.float32(np.abs(NORMAL).max() / 127)
    scale = np.float32(factor * holding)
    whole, groups, found = excess(NORMAL, scale)
    assert float(found) == pytest.approx(float(holding), rel=1e-6)
    assert whole == pytest.approx(by_hand(NORMAL, float(scale), used * float(holding), 127), abs=1e-3)
    assert float(groups) == whole


@pytest.mark.parametrize(
    ("fmt", "granularity"), [("int8", PerAxis(0)), ("int4", Blocked(1, 16)), ("int8", PerTensor())]
)
@pytest.mark.parametrize("rounded", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_usual_scales_have_little_excess_and_half_of_them_have_much(fmt, granularity, rounded):
    scheme = QuantScheme(formats.get(fmt), granularity)
    for made in (scale_from_tensor(NORMAL, scheme), scale_by_mse(NORMAL, scheme, shrink=(1.0, 0.9, 0.8))):
        whole, groups, _ = excess(NORMAL, made.scale.astype(rounded), fmt, granularity)
        assert whole < 1
        assert groups.max() < 4
        whole, _, _ = excess(NORMAL, (made.scale / 2).astype(rounded), fmt, granularity)
        assert whole > 6


def test_a_channel_alone_is_seen_however_small_it_is():
    x = NORMAL * np.float32([1] * 63 + [1e-3])[:, None]
    good = scale_from_tensor(x, QuantScheme(formats.get("int8"), PerAxis(0))).scale
    for factor in (1e-3, 200.0):
        scale = good * np.float32([1] * 63 + [factor])
        whole, groups, holding = excess(x, scale, granularity=PerAxis(0))
        assert int(np.argmax(groups)) == 63
        assert groups[63] > 6 > groups[:63].max()
        assert whole < 3
        assert holding[63] == pytest.approx(good[63], rel=1e-6)


@pytest.mark.parametrize("zero", [0, 128, 60])
def test_zero_points_that_do_not_fit_have_an_excess(zero):
    x = np.linspace(-1, 1, 999, dtype=np.float32)
    whole, _, holding = excess(x, np.float32(2 / 254), "uint8", zero_point=np.uint8(zero))
    assert (whole < 1) == (zero == 128)
    assert float(holding) == pytest.approx(2 / 255 if zero else 1 / 255)
    # A range that does not reach 0 includes it.
    assert float(excess(x + 3, np.float32(4 / 255), "uint8", zero_point=np.uint8(1))[2]) == pytest.approx(4 / 255)
    assert float(excess(x - 3, np.float32(4 / 255), "uint8", zero_point=np.uint8(1))[2]) == pytest.approx(4 / 255)


def test_powers_of_two_may_be_the_next_one():
    x = NORMAL[0] / np.abs(NORMAL[0]).max() * np.float32(127 * 1.01)
    # 1 clips the largest value and 2 is the next power. Other scales may be so coarse only if they are that large.
    assert excess(x, np.float32(1))[0] < excess(x, np.float32(1.0001))[0] - 4
    assert excess(x, np.float32(0.5))[0] > 6


def test_one_power_of_two_among_other_scales_is_no_rule():
    x = np.float32([[127 * 1.01, 100.7, -50.2, 30.4]] * 2)
    groups = excess(x, np.float32([1, 1]), granularity=PerAxis(0))[1]
    assert groups[0] < excess(x, np.float32([1, 1.1]), granularity=PerAxis(0))[1][0] - 4


def test_the_larger_end_decides_and_one_zero_point_makes_all_ranges_asymmetric():
    x = np.float32([[-3, 0.1, 1], [-1, 0.5, 3]])
    assert np.allclose(excess(x, np.float32([1, 1]), granularity=PerAxis(0))[2], 3 / 127)
    zero = np.int8([0, -64])
    assert np.allclose(excess(x, np.float32([1, 1]), granularity=PerAxis(0), zero_point=zero)[2], 4 / 255)


def test_float_formats_have_steps_that_grow():
    holding = np.float32(np.abs(NORMAL).max() / 448)
    for factor in (1.0, 4.0, 32.0):
        assert abs(excess(NORMAL, np.float32(factor) * holding, "float8e4m3fn")[0]) < 1
    assert excess(NORMAL, holding / np.float32(1.5), "float8e4m3fn")[0] > 6


def test_no_scale_below_the_least_is_expected_and_exact_values_have_no_excess():
    tiny = NORMAL * np.float32(1e-7)
    assert excess(tiny, np.float32(2.0**-23))[0] < 1
    assert excess(tiny, np.float32(2.0**-23))[2] == 2.0**-23
    assert excess(NORMAL * np.float32(1e-4), np.float16(2.0**-14))[2] == 2.0**-14
    assert excess(np.float32([-127, 0, 5]), np.float32(1))[:2] == (-math.inf, -math.inf)
    assert excess(np.zeros(4, np.float32), np.float32(1))[0] == -math.inf
    assert excess(np.float32(0.5), np.float32(0.5))[0] == -math.inf
