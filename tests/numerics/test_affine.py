"""Quantize and dequantize against exact rational arithmetic, bit for bit."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support import numbers, rational

from qdqtool.errors import ArgumentError
from qdqtool.numerics import affine, formats, kernels
from qdqtool.numerics import affine as module
from qdqtool.numerics.affine import PIECE, pieces
from qdqtool.numerics.granularity import Blocked, PerAxis, PerTensor

INT8, UINT8, E4M3 = (formats.get(name) for name in ("int8", "uint8", "float8e4m3fn"))
ONE = np.float32(1)


def zero_points(rng, fmt, shape):
    """Legal zero points: at both ends of the range, odd and even ones."""
    if fmt.zero_point == "zero":
        return None
    drawn = rng.choice([fmt.low, fmt.high, 0, 1, fmt.low + 1], shape)
    return np.asarray(drawn).astype(np.int32).astype(fmt.dtype)


@pytest.mark.parametrize("scale_type", numbers.SCALE)
@pytest.mark.parametrize("x_type", numbers.REAL)
@pytest.mark.parametrize("name", numbers.QUANTIZED)
def test_quantize_rounds_the_exact_quotient_once(name, x_type, scale_type):
    fmt = formats.get(name)
    rng = np.random.default_rng(7)
    for precision in (None, *numbers.REAL):
        scale = numbers.scales(rng, 40, scale_type)
        x = numbers.values(rng, scale, fmt, x_type)
        zero = zero_points(rng, fmt, 40)
        chosen = None if precision is None else numbers.REAL[precision]
        codes = affine.quantize(x, scale, fmt, PerAxis(0), zero, precision=chosen)
        used = precision or ("float32" if scale_type == "float8e8m0" else scale_type)
        numbers.assert_codes(codes, rational.quantize(x, scale, name, PerAxis(0), zero, precision=used), fmt)


@pytest.mark.parametrize("name", numbers.FLOAT)
def test_overflow_is_judged_after_rounding_when_saturation_is_off(name):
    fmt = formats.get(name)
    high = fmt.high
    step = high - float(np.nextafter(np.asarray(high).astype(fmt.dtype), np.asarray(0).astype(fmt.dtype)))
    x = np.float32([high, high + step / 2, np.nextafter(np.float32(high + step / 2), np.float32(1e9)), 2 * high])
    x = np.concatenate([x, -x, np.float32([np.nan, np.inf, -np.inf, np.nextafter(x[1], np.float32(0))])])
    for saturate in (True, False):
        codes = affine.quantize(x, ONE, fmt, PerTensor(), saturate=saturate)
        numbers.assert_codes(codes, rational.quantize(x, ONE, name, PerTensor(), saturate=saturate), fmt)


SPECIAL_CODES = {
    "int8": (127, -128, -128),
    "uint16": (65535, 0, 0),
    "uint2": (3, 0, 0),
    "float4e2m1": (6, -6, -6),
    "float6e3m2": (28, -28, -28),
    "float8e4m3fn": (448, -448, np.nan),
    "float8e4m3fnuz": (240, -240, np.nan),
    "float8e5m2": (57344, -57344, np.nan),
}


@pytest.mark.parametrize(("name", "expected"), SPECIAL_CODES.items())
def test_infinities_and_nan(name, expected):
    """The written table: infinities saturate, NaN stays NaN where there is one and else gives the lowest value."""
    x = np.float32([np.inf, -np.inf, np.nan])
    codes = affine.quantize(x, np.float32(0.5), formats.get(name), PerTensor())
    np.testing.assert_array_equal(codes.astype(np.float32), np.float32(expected))


@pytest.mark.parametrize(
    ("name", "expected"),
    [("float8e4m3fn", [np.nan, np.nan]), ("float8e4m3fnuz", [np.nan, np.nan]), ("float8e5m2", [np.inf, -np.inf])],
)
def test_infinities_without_saturation(name, expected):
    codes = affine.quantize(np.float32([np.inf, -np.inf]), ONE, formats.get(name), PerTensor(), saturate=False)
    np.testing.assert_array_equal(codes.astype(np.float32), np.float32(expected))


def test_a_zero_scale_divides_like_ieee():
    codes = affine.quantize(np.float32([1, -1, 0]), np.float32(0), INT8, PerTensor())
    np.testing.assert_array_equal(codes, [127, -128, -128])


@st.composite
def layouts(draw):
    """A shape of rank 0 to 6 and a granularity that it allows, short last blocks and empty axes among them."""
    shape = tuple(draw(st.lists(st.integers(0, 5), max_size=6)))
    if int(np.prod(shape)) > 60:
        shape = tuple(min(n, 2) for n in shape)
    if not shape or draw(st.integers(0, 3)) == 0:
        return shape, PerTensor()
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    return shape, PerAxis(axis) if draw(st.booleans()) else Blocked(axis, draw(st.integers(1, 6)))


@given(
    layouts(), st.sampled_from(numbers.QUANTIZED), st.sampled_from(list(numbers.REAL)), st.integers(0, 2**32), st.data()
)
@settings(max_examples=150, deadline=None)
def test_quantize_at_every_granularity(layout, name, x_type, seed, data):
    shape, granularity = layout
    fmt, rng = formats.get(name), np.random.default_rng(seed)
    scale_type = data.draw(st.sampled_from(list(numbers.REAL)))
    scale = numbers.scales(rng, granularity.scale_shape(shape), scale_type)
    zero = zero_points(rng, fmt, scale.shape) if data.draw(st.booleans()) else None
    x = numbers.values(rng, spread(scale, shape, granularity), fmt, x_type)
    codes = affine.quantize(x, scale, fmt, granularity, zero)
    numbers.assert_codes(codes, rational.quantize(x, scale, name, granularity, zero, precision=scale_type), fmt)


@given(layouts(), st.sampled_from([*numbers.QUANTIZED, "int32"]), st.integers(0, 2**32), st.data())
@settings(max_examples=150, deadline=None)
def test_dequantize_at_every_granularity(layout, name, seed, data):
    shape, granularity = layout
    fmt, rng = formats.get(name), np.random.default_rng(seed)
    output = data.draw(st.sampled_from(list(numbers.REAL)))
    scale = numbers.scales(rng, granularity.scale_shape(shape), data.draw(st.sampled_from(list(numbers.SCALE))))
    zero = zero_points(rng, fmt, scale.shape) if data.draw(st.booleans()) else None
    codes = finite_codes(rng, fmt, shape)
    real = affine.dequantize(codes, scale, granularity, zero, output_dtype=numbers.REAL[output])
    assert real.dtype == numbers.REAL[output]
    expected = rational.dequantize(codes, scale, granularity, zero, output=output)
    np.testing.assert_array_equal(real.astype(np.float64), expected)


def spread(scale, shape, granularity):
    """The scale of each element, found by the oracle's own index rule."""
    full = np.empty(shape, scale.dtype)
    for index in np.ndindex(shape):
        full[index] = scale[rational.parameter_index(index, granularity)]
    return full


def finite_codes(rng, fmt, shape):
    """Codes of a format drawn from all its bit patterns, less NaN and infinity."""
    if fmt.kind == "integer":
        return np.asarray(rng.integers(int(fmt.low), int(fmt.high) + 1, shape)).astype(np.int64).astype(fmt.dtype)
    codes = np.asarray(rng.integers(0, 2**fmt.bits, shape)).astype(np.uint8).view(fmt.dtype)
    return np.where(np.isfinite(codes.astype(np.float32)), codes, np.zeros((), fmt.dtype))


def every_code(fmt):
    """All finite codes of a format."""
    if fmt.kind == "integer":
        return np.arange(int(fmt.low), int(fmt.high) + 1).astype(fmt.dtype)
    codes = np.arange(2**fmt.bits, dtype=np.uint8).view(fmt.dtype)
    return codes[np.isfinite(codes.astype(np.float32))]


@pytest.mark.parametrize("name", numbers.QUANTIZED)
def test_every_code_survives_the_round_trip(name):
    """Dequantize then quantize is the identity on all codes, at awkward scales: the grid is a fixed point."""
    fmt = formats.get(name)
    codes = every_code(fmt)
    for scale in np.float32([0.1, 1 / 127, 3e-5, 7.77]):
        real = affine.dequantize(codes, scale, PerTensor())
        again = affine.quantize(real, scale, fmt, PerTensor())
        np.testing.assert_array_equal(again.astype(np.float32), codes.astype(np.float32))


@pytest.mark.parametrize("name", numbers.QUANTIZED)
def test_quantize_is_monotone_and_idempotent(name):
    fmt = formats.get(name)
    scale = np.float32(0.37)
    x = np.sort(np.random.default_rng(3).normal(size=5000).astype(np.float32) * np.float32(fmt.high * 0.6))
    once = affine.fake_quantize(x, scale, fmt, PerTensor())
    assert (np.diff(once) >= 0).all()
    np.testing.assert_array_equal(affine.fake_quantize(once, scale, fmt, PerTensor()), once)


def test_the_quotient_is_rounded_before_the_code():
    """8.95 / 0.1 is 89.49999676... exactly and 89.5 in float32; ONNX and ORT round that, to 90."""
    assert affine.quantize(np.float32(8.95), np.float32(0.1), INT8, PerTensor()) == 90


def test_int32_is_divided_exactly():
    x = np.int32([2**24 + 1, 2**31 - 1, -(2**31)])
    scale = np.float32(2**18 + 0.5)
    codes = affine.quantize(x, scale, formats.get("int16"), PerTensor())
    numbers.assert_codes(codes, rational.quantize(x, scale, "int16", PerTensor()), formats.get("int16"))


@pytest.mark.parametrize(
    ("codes", "zero", "expected"),
    [([-(2**31)], 5, [-(2.0**31)]), ([2**24 + 1, 2**24 + 3], 1, [2**24, 2**24 + 2])],
    ids=["no overflow", "exact beyond 24 bits"],
)
def test_int32_codes_less_their_zero_point_are_rounded_once(codes, zero, expected):
    real = affine.dequantize(np.int32(codes), ONE, PerTensor(), np.asarray(np.int32(zero)))
    np.testing.assert_array_equal(real, np.float32(expected))


def test_float64_counts_as_float32():
    x = np.array([0.1, 2.5, -3.5])
    left = affine.quantize(x, np.float64(0.1), INT8, PerTensor())
    np.testing.assert_array_equal(left, affine.quantize(x.astype(np.float32), np.float32(0.1), INT8, PerTensor()))


def test_large_arrays_are_cut_into_pieces_without_a_seam():
    rng = np.random.default_rng(5)
    x = rng.normal(size=(3, 70_001)).astype(np.float32)
    scale = rng.uniform(0.01, 0.02, (3, 2188)).astype(np.float32)
    codes = affine.quantize(x, scale, INT8, Blocked(1, 32))
    wide = np.repeat(scale, 32, axis=1)[:, :70_001]
    np.testing.assert_array_equal(codes, np.clip(np.rint(x / wide), -128, 127).astype(np.int8))


def test_inputs_are_left_alone():
    x, scale = np.float32([1.5, 2.5]), np.float32([0.5])
    x.setflags(write=False)
    affine.quantize(x, scale, INT8, PerTensor())
    affine.fake_quantize(x.T[::-1], scale, E4M3, PerTensor())
    np.testing.assert_array_equal(x, np.float32([1.5, 2.5]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.zeros(3, np.int64), ONE, INT8, PerTensor()), "x has type int64; legal: float32"),
        ((np.zeros(3, np.float32), np.int32(1), INT8, PerTensor()), "scale has type int32; legal: float32"),
        ((np.zeros(3, np.float32), ONE, formats.get("int32"), PerTensor()), "format is int32; ONNX does not quantize"),
        ((np.zeros(3, np.float32), np.ones(2, np.float32), INT8, PerAxis(0)), r"scale has shape \[2\].*needs \[3\]"),
        ((np.zeros(3, np.float32), ONE, UINT8, PerTensor(), np.asarray(-1)), "zero_point is -1; uint8 allows 0 to 255"),
        (
            (np.zeros(3, np.float32), ONE, E4M3, PerTensor(), np.asarray(1)),
            "zero_point is 1; float8e4m3fn allows only 0",
        ),
        (
            (np.zeros(2, np.float32), np.ones(2, np.float32), E4M3, PerAxis(0), np.array([0, 1])),
            "zero_point is 1; float8e4m3fn allows only 0",
        ),
    ],
)
def test_illegal_arguments_are_named_with_their_legal_values(arguments, message):
    arguments = tuple(np.asarray(a) if isinstance(a, np.generic) else a for a in arguments)
    with pytest.raises(ArgumentError, match=message):
        affine.quantize(*arguments)


def test_illegal_types_of_division_and_output():
    with pytest.raises(ArgumentError, match="precision is int8; legal: float32, float16, bfloat16"):
        affine.quantize(np.zeros(1, np.float32), np.asarray(ONE), INT8, PerTensor(), precision=np.int8)
    with pytest.raises(ArgumentError, match="output_dtype is float64; legal: float32, float16, bfloat16"):
        affine.dequantize(np.zeros(1, np.int8), np.asarray(ONE), PerTensor(), output_dtype=np.float64)


def test_bfloat16_quotients_are_rounded_from_the_exact_value():
    """Quotients so near a tie of bfloat16 that float32 cannot tell, where going through float32 rounds twice."""
    scale = np.random.default_rng(4).uniform(1, 2, 2000).astype(np.float32)
    x = (128.5 * scale.astype(np.float64)).astype(np.float32)
    near = (x / scale == 128.5) & (x.astype(np.float64) != 128.5 * scale.astype(np.float64))
    x, scale, fmt = x[near][:50], scale[near][:50], formats.get("int16")
    assert x.size == 50
    codes = affine.quantize(x, scale, fmt, PerAxis(0), precision=ml_dtypes.bfloat16)
    assert set(codes.tolist()) == {128, 129}
    numbers.assert_codes(codes, rational.quantize(x, scale, "int16", PerAxis(0), precision="bfloat16"), fmt)


@pytest.mark.parametrize("scale_type", numbers.SCALE)
def test_dequantized_values_have_the_type_of_the_scale_and_float32_for_powers_of_two(scale_type):
    scale = np.ones((), numbers.SCALE[scale_type])
    expected = np.float32 if scale_type == "float8e8m0" else numbers.SCALE[scale_type]
    assert affine.dequantize(np.int8([1]), scale, PerTensor()).dtype == expected


@pytest.mark.parametrize("x_type", [*numbers.REAL.values(), np.float64, np.int32])
def test_fake_quantized_values_have_the_type_of_the_values_and_float32_for_other_types(x_type):
    expected = x_type if x_type in numbers.REAL.values() else np.float32
    assert affine.fake_quantize(np.ones(3, x_type), np.asarray(ONE), INT8, PerTensor()).dtype == expected


@pytest.mark.parametrize(
    ("name", "scale_type", "options", "kernel"),
    [
        ("int8", "float32", {}, "quantize"),
        ("int8", "float32", {"precision": np.float32}, "quantize"),
        ("int8", "float32", {"saturate": False}, "quantize"),
        ("int8", "float32", {"precision": np.float16}, None),
        ("int8", "float16", {"precision": np.float32}, None),
        ("float8e4m3fn", "float32", {}, "quantize"),
        ("float8e4m3fn", "float32", {"saturate": False}, None),
        ("float8e4m3fnuz", "float32", {}, None),
        ("float4e2m1", "float32", {"saturate": False}, "quantize"),
    ],
)
def test_large_float32_goes_to_the_kernel_where_it_divides_and_saturates_as_asked(
    name, scale_type, options, kernel, monkeypatch
):
    fmt, rng = formats.get(name), np.random.default_rng(8)
    scale = numbers.scales(rng, 300, scale_type)
    x = numbers.values(rng, scale, fmt, "float32")
    assert codes_and_kernel(monkeypatch, x, scale, fmt, options) == kernel


@pytest.mark.parametrize(
    ("scale_type", "options", "zero", "kernel"),
    [
        ("float16", {}, None, "quantize_half"),
        ("float16", {}, 0, None),
        ("float16", {}, 3, None),
        ("float16", {"precision": np.float32}, None, None),
        ("float16", {"precision": ml_dtypes.bfloat16}, None, None),
    ],
)
def test_large_float16_goes_to_the_kernel_where_it_divides_as_asked_and_there_is_no_zero_point(
    scale_type, options, zero, kernel, monkeypatch
):
    rng = np.random.default_rng(8)
    scale = numbers.scales(rng, 300, scale_type)
    x = numbers.values(rng, scale, INT8, "float16")
    if zero is not None:
        options = {**options, "zero_point": np.full(300, zero, np.int8)}
    assert codes_and_kernel(monkeypatch, x, scale, INT8, options) == kernel


def codes_and_kernel(monkeypatch, x, scale, fmt, options):
    """The kernel that is called for arrays of a size that is worth it; its codes are those of the NumPy code."""
    pytest.importorskip("numba")
    plain = affine.quantize(x, scale, fmt, PerAxis(0), **options)
    taken = []
    for name in ("quantize", "quantize_half"):
        inner = getattr(kernels, name)
        monkeypatch.setattr(kernels, name, lambda *a, name=name, inner=inner: taken.append(name) or inner(*a))
    monkeypatch.setattr(kernels, "WORTH_IT", x.size)
    monkeypatch.setattr(kernels, "SMALL", x.size)
    codes = affine.quantize(x, scale, fmt, PerAxis(0), **options)
    np.testing.assert_array_equal(codes.view(np.uint8), plain.view(np.uint8))
    return taken[0] if taken else None


@st.composite
def shared_layouts(draw):
    shape = tuple(draw(st.lists(st.integers(1, 6), max_size=4)))
    if not shape:
        return shape, PerTensor()
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    return shape, draw(st.sampled_from([PerTensor(), PerAxis(axis), Blocked(axis, draw(st.integers(1, 7)))]))


@given(shared_layouts(), st.integers(1, 30))
@example(((2, 6, 3), Blocked(1, 4)), 30)
@example(((2, 0), Blocked(1, 4)), 30)
@example(((0, 2), PerAxis(1)), 30)
def test_every_element_comes_once_with_its_own_scale(layout, size):
    shape, granularity = layout
    x = np.arange(int(np.prod(shape))).reshape(shape)
    scale_shape = granularity.scale_shape(shape)
    scale = np.arange(int(np.prod(scale_shape))).reshape(scale_shape) + 1000
    out, times = np.zeros(shape, int), np.zeros(shape, int)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "PIECE", size)
        for (values, target, count), (step, nothing) in pieces((x, out, times), (scale, None), granularity):
            assert values.shape == step.shape == target.shape
            assert nothing is None
            assert values.size <= size
            target[...] = values * 10_000 + step
            count[...] += 1
    assert (times == 1).all()
    for index in np.ndindex(shape):
        assert out[index] == x[index] * 10_000 + scale[rational.parameter_index(index, granularity)]


def test_a_large_array_comes_in_pieces_that_fit_a_cache_and_are_not_tiny():
    x = np.zeros((3, 5, 40_000), np.float32)
    sizes = [values.size for (values,), _ in pieces((x,), (np.float32(1).reshape(()),), PerTensor())]
    assert sum(sizes) == x.size
    assert max(sizes) <= PIECE
    assert len(sizes) <= 2 * x.size / PIECE + 1


def test_scales_are_not_spread_out_in_memory():
    x, scale = np.zeros((64, 4096), np.float32), np.ones(64, np.float32)
    for _, (step,) in pieces((x,), (scale,), PerAxis(0)):
        assert np.shares_memory(step, scale)
        assert step.strides[1] == 0


def test_a_one_element_vector_is_taken_for_a_scalar():
    [((values,), (step,))] = pieces((np.zeros((2, 3)),), (np.float32([5]),), PerTensor())
    np.testing.assert_array_equal(step, np.full(values.shape, 5))


def test_a_parameter_of_another_shape_is_refused():
    with pytest.raises(ArgumentError, match=r"scale has shape \[2\]; per-axis 0 .* needs \[3\]"):
        list(pieces((np.zeros((3, 2)),), (np.ones(2),), PerAxis(0)))
