"""The search for block scales: which schemes it takes, the grid of two-level scales, and kernels against their twin."""

import ml_dtypes
import numpy as np
import pytest

from qdqtool.errors import ArgumentError
from qdqtool.numerics import formats, search
from qdqtool.numerics.affine import fake_quantize, quantize
from qdqtool.numerics.derive import ScaleRule, scale_from_tensor
from qdqtool.numerics.dtypes import FLOAT16, FLOAT32
from qdqtool.numerics.fit import Fit, fit
from qdqtool.numerics.granularity import Blocked, PerAxis, PerTensor
from qdqtool.numerics.groups import BlockLayout
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


@pytest.mark.parametrize("either_sign", [False, True])
def test_integer_scales_are_the_fitted_steps_rounded_to_the_type_that_stores_them(either_sign):
    x, granularity = weights((64, 24)), Blocked(0, 32)
    params, peaks = search.least_error(x, SCHEMES[0], ScaleRule(dtype=FLOAT16, either_sign=either_sign))
    steps, amax = fit(x, BlockLayout.of(x.shape, granularity), Fit(INT4, either_sign), compiled=False)
    np.testing.assert_array_equal(params.scale, steps.reshape(2, 24).astype(np.float16))
    np.testing.assert_array_equal(peaks, amax.reshape(2, 24))
    assert np.any(params.scale < 0) == either_sign


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


OTHERS = [
    QuantScheme(E4M3, Blocked(0, 16)),
    QuantScheme(FP4, Blocked(0, 16)),
    QuantScheme(INT4, PerAxis(0)),
    QuantScheme(INT4, PerTensor()),
    QuantScheme(INT4, Blocked(0, 32), symmetric=False),
    QuantScheme(formats.get("uint4"), Blocked(0, 32)),
    QuantScheme(INT4, Blocked(0, 32), scale_scheme=QuantScheme(E4M3, PerTensor())),
    QuantScheme(FP4, Blocked(0, 32), scale_scheme=QuantScheme(formats.get("float8e8m0"), PerTensor())),
    QuantScheme(FP4, PerAxis(0), scale_scheme=QuantScheme(E4M3, PerTensor())),
]


@pytest.mark.parametrize("scheme", OTHERS, ids=str)
def test_other_schemes_are_refused(scheme):
    assert not search.supports(scheme)
    expected = f"scheme is {scheme}; a search for scales needs a symmetric block scheme of few bits"
    with pytest.raises(ArgumentError, match=f"^{expected}$"):
        search.least_error(weights(), scheme, ScaleRule())


@pytest.mark.parametrize("scheme", [*SCHEMES, QuantScheme(formats.get("int8"), Blocked(0, 32))], ids=str)
def test_symmetric_blocks_of_signed_integers_and_of_fp4_with_quantized_scales_are_searched(scheme):
    assert search.supports(scheme)


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e4])
def test_two_level_scales_have_nearly_the_least_error_of_the_codes_around_the_largest_magnitude(size):
    x = (np.random.default_rng(12).normal(size=(16, 600)) * size).astype(np.float32)
    params, amax = search.least_error(x, NVFP4, ScaleRule())
    np.testing.assert_array_equal(amax, np.abs(x).max(axis=0, keepdims=True))
    outer = params.scale_params.scale
    assert outer == np.float32(np.abs(x).max().astype(np.float64) / (6 * 448))
    steps = np.arange(1, 127, dtype=np.uint8).view(E4M3.dtype).astype(np.float64) * float(outer)
    least = []
    for column in np.abs(x.T).astype(np.float64):
        above = np.flatnonzero(steps >= column.max() / 6 * (1 - 1e-6))[0]
        tried = steps[max(0, above - search.STEPS_DOWN) : above + search.STEPS_UP + 1, None]
        nearest = FP4_VALUES[np.abs(column[:, None] / tried[..., None] - FP4_VALUES).argmin(axis=-1)]
        least.append(np.square(column - tried * nearest).sum(axis=1).min())
    assert sum(least) * (1 - 1e-5) <= squared_error(x, params) <= sum(least) * 10**0.001  # 0.01 dB


@pytest.mark.parametrize("threshold", [0, 1 << 60])
def test_zeros_get_the_smallest_two_level_scale(threshold, monkeypatch):
    monkeypatch.setattr(search, "WORTH_IT", threshold)
    params, amax = search.least_error(np.zeros((32, 3), np.float32), NVFP4, ScaleRule())
    assert params.scale_params.scale == 1
    np.testing.assert_array_equal(params.scale, np.full((2, 3), 2.0**-9, np.float32))
    np.testing.assert_array_equal(amax, np.zeros((2, 3)))
    x = weights((32, 3))
    x[:16, 1] = 0
    params, _ = search.least_error(x, NVFP4, ScaleRule())
    assert params.scale[0, 1] == np.float32(2.0**-9) * params.scale_params.scale


@pytest.mark.parametrize("either_sign", [False, True])
def test_integer_groups_of_zeros_get_the_scale_one_whatever_the_sign_of_the_zeros(either_sign):
    x = np.float32([[0.0, -0.0, 3.0], [0.0, -0.0, 6.0]])
    params, amax = search.least_error(x, QuantScheme(INT4, Blocked(0, 2)), ScaleRule(either_sign=either_sign))
    np.testing.assert_array_equal(params.scale[0, :2], [1, 1])
    np.testing.assert_array_equal(amax, [[0, 0, 6]])
    assert (params.scale[0, 2] < 0) == either_sign


@pytest.mark.parametrize("scheme", [SCHEMES[0], NVFP4], ids=str)
def test_the_order_in_memory_and_the_type_of_exact_values_change_no_scale(scheme):
    x = weights().astype(FLOAT16).astype(ml_dtypes.bfloat16).astype(np.float32)
    expected, peaks = search.least_error(x, scheme, ScaleRule())
    for same in (np.asfortranarray(x), x.astype(ml_dtypes.bfloat16), x.astype(np.float64)):
        found, amax = search.least_error(same, scheme, ScaleRule())
        np.testing.assert_array_equal(found.scale, expected.scale)
        np.testing.assert_array_equal(amax, peaks)


@pytest.mark.parametrize("scheme", [SCHEMES[0], NVFP4], ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_the_largest_finite_values_are_accepted(scheme, dtype):
    x = np.full((32, 2), np.finfo(dtype).max, dtype)
    params, amax = search.least_error(x, scheme, ScaleRule())
    np.testing.assert_array_equal(amax, np.full(params.scale.shape, np.finfo(dtype).max))


def test_two_level_scales_of_halves_are_normal_and_keep_their_code():
    """Of codes whose halves are the same number, or no normal one, none is used."""
    x = (weights((64, 40), np.float32) * np.exp2(-np.arange(40, dtype=np.float32) / 2)).astype(np.float16)
    params, _ = search.least_error(x, NVFP4, ScaleRule(dtype=FLOAT16))
    outer = params.scale_params.scale
    codes = quantize(params.scale.astype(np.float32), outer, E4M3, PerTensor())
    again = (codes.astype(np.float32) * outer).astype(np.float16)
    np.testing.assert_array_equal(again, params.scale)
    assert params.scale.min() >= np.float16(2.0**-14)


@pytest.mark.parametrize(("dtype", "outer", "smallest"), [(FLOAT32, 1.0, 2.0**-9), (FLOAT16, 2.0**-10, 2.0**-14)])
def test_the_smallest_two_level_scale_is_used_where_it_is_exact(dtype, outer, smallest):
    """The smallest code, and the smallest normal number of the type that stores scales."""
    x = np.zeros((16, 2), np.float32)
    x[0, 0], x[:8, 1] = 6 * 448 * outer, FP4_VALUES * smallest
    params, _ = search.least_error(x, NVFP4, ScaleRule(dtype=dtype))
    assert params.scale_params.scale == outer
    np.testing.assert_array_equal(params.scale, np.array([[448 * outer, smallest]], dtype))


@pytest.mark.parametrize("threshold", [0, 1 << 60])
@pytest.mark.parametrize("either_sign", [False, True])
@pytest.mark.parametrize("size", [1e-45, 1e-40, 8e-39])
def test_groups_too_small_to_divide_by_get_the_smallest_scale(size, either_sign, threshold, monkeypatch):
    monkeypatch.setattr(search, "WORTH_IT", threshold)
    x = np.full((32, 2), size, np.float32)
    x[1:, 1] = 0
    params, _ = search.least_error(x, SCHEMES[0], ScaleRule(either_sign=either_sign))
    np.testing.assert_array_equal(np.abs(params.scale), np.full((1, 2), 2.0**-126, np.float32))
    assert either_sign or np.all(params.scale > 0)
