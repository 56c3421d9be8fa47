"""The search for block scales: which schemes it takes, the grid of two-level scales, and kernels against their twin."""

import numpy as np
import pytest

from qdqtool import formats
from qdqtool.errors import ArgumentError
from qdqtool.numerics import search
from qdqtool.numerics.affine import fake_quantize, quantize
from qdqtool.numerics.blocks import Blocks
from qdqtool.numerics.derive import ScaleRule, scale_from_tensor
from qdqtool.numerics.dtypes import FLOAT16, FLOAT32
from qdqtool.numerics.fit import Fit, fit
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


@pytest.mark.parametrize("either_sign", [False, True])
def test_integer_scales_are_the_fitted_steps_rounded_to_the_type_that_stores_them(either_sign):
    x, granularity = weights((64, 24)), Blocked(0, 32)
    params, peaks = search.least_error(x, SCHEMES[0], ScaleRule(dtype=FLOAT16, either_sign=either_sign))
    steps, amax = fit(x, Blocks.of(x.shape, granularity), Fit(INT4, either_sign), compiled=False)
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


@pytest.mark.parametrize("scheme", [QuantScheme(E4M3, Blocked(0, 16)), QuantScheme(INT4, PerAxis(0))], ids=str)
def test_other_schemes_are_refused(scheme):
    with pytest.raises(ArgumentError, match="symmetric block schemes"):
        search.least_error(weights(), scheme, ScaleRule())
