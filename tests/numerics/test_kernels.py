"""The compiled kernels against their NumPy twins, bit for bit. The twins are tested against exact rationals."""

import sys
from types import ModuleType

import numpy as np
import pytest
from support import numbers, rational

from qdqtool.errors import ArgumentError
from qdqtool.numerics import affine, formats, groups, kernels
from qdqtool.numerics.granularity import Blocked, PerAxis, PerTensor

pytest.importorskip("numba")

NAMES = [name for name in numbers.QUANTIZED if kernels.supports(formats.get(name))]
FLOATS = [name for name in NAMES if formats.get(name).kind == "float"]
SHAPES = [(3, 70, 33), (1, 1), (70_000,), (2, 0, 3), (5, 3, 2)]
ROWS, HALF_ROWS = "qdqtool.numerics.compiled.rows", "qdqtool.numerics.compiled.half_rows"
INT8 = formats.get("int8")
GRANULARITIES = [PerTensor(), PerAxis(0), PerAxis(-1), Blocked(-1, 16), Blocked(0, 2), Blocked(-1, 1)]


@pytest.fixture
def numpy_only(monkeypatch):
    monkeypatch.setattr(kernels, "wanted", lambda _x: False)


def hard_values(rng, shape, scale, fmt, granularity):
    """Ties, neighbours of ties, specials and random bits, spread over the whole array."""
    spread = np.broadcast_to(np.float32(0.5), shape).copy() if scale is None else scale
    return numbers.values(rng, spread, fmt, "float32")


@pytest.mark.usefixtures("numpy_only")
@pytest.mark.parametrize("granularity", GRANULARITIES, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_codes_have_the_bits_of_the_twin(name, granularity):
    fmt, rng = formats.get(name), np.random.default_rng(12)
    for shape in SHAPES:
        scale = numbers.scales(rng, granularity.scale_shape(shape), "float32")
        if isinstance(granularity, PerTensor):
            scale = np.asarray(scale)
        x = hard_values(rng, shape, None, fmt, granularity)
        zero = None
        if fmt.zero_point == "any":
            zero = rng.integers(int(fmt.low), int(fmt.high) + 1, scale.shape).astype(np.float32)
            zero = np.asarray(zero)
        codes = kernels.quantize(x, scale, fmt, granularity, zero)
        twin = affine.quantize(x, scale, fmt, granularity, zero)
        assert codes.dtype == twin.dtype
        np.testing.assert_array_equal(codes.view(np.uint8), twin.view(np.uint8))


@pytest.mark.usefixtures("numpy_only")
@pytest.mark.parametrize("granularity", [PerTensor(), PerAxis(0), PerAxis(1), Blocked(-1, 16)], ids=str)
def test_ranges_are_those_of_the_twin(granularity):
    rng = np.random.default_rng(13)
    for shape in [(3, 70, 33), (2, 1, 20)]:
        x = rng.normal(size=shape).astype(np.float32)
        x.flat[:4] = [np.nan, np.inf, -np.inf, -0.0]
        assert kernels.has_ranges(shape, granularity)
        for found, expected in zip(kernels.ranges(x, granularity), groups.ranges(x, granularity), strict=True):
            assert found.shape == expected.shape
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", FLOATS)
def test_every_value_of_a_small_float_and_every_midpoint_gets_the_code_of_its_layout(name):
    sizes = np.float32(sorted(map(float, rational.magnitudes(name))))
    middle = (sizes[1:] + sizes[:-1]) / 2
    x = np.concatenate([sizes, middle, -sizes, -middle, np.float32([np.nan, np.inf, -np.inf])])
    one = np.asarray(np.float32(1))
    codes = kernels.quantize(x, one, formats.get(name), PerTensor(), None)
    numbers.assert_codes(codes, rational.quantize(x, one, name, PerTensor()), formats.get(name))


def test_no_zero_point_is_zero():
    x = np.float32([-3, -0.4, 0, 0.6, 200])
    codes = kernels.quantize(x, np.float32([1]), INT8, PerTensor(), None)
    np.testing.assert_array_equal(codes, [-3, 0, 0, 1, 127])


@pytest.mark.parametrize("processors", [1, 2, 7])
@pytest.mark.parametrize("granularity", GRANULARITIES, ids=str)
def test_codes_and_ranges_do_not_depend_on_the_number_of_processors(granularity, processors, monkeypatch):
    shape, rng = (6, 5, 32), np.random.default_rng(3)
    x, half = rng.normal(size=shape).astype(np.float32), rng.normal(size=shape).astype(np.float16)
    scale = np.asarray(numbers.scales(rng, granularity.scale_shape(shape), "float32"))
    half_scale = np.asarray(numbers.scales(rng, granularity.scale_shape(shape), "float16"))
    monkeypatch.setattr(kernels, "cores", lambda: processors)
    expected = rational.quantize(x, scale, "int8", granularity)
    np.testing.assert_array_equal(kernels.quantize(x, scale, INT8, granularity, None), expected)
    expected = rational.quantize(half, half_scale, "int8", granularity, precision="float16")
    np.testing.assert_array_equal(kernels.quantize_half(half, half_scale, INT8, granularity), expected)
    if kernels.has_ranges(shape, granularity):
        low, high = kernels.ranges(x, granularity)
        np.testing.assert_array_equal(low, groups.reduce_groups(x, granularity, np.minimum))
        np.testing.assert_array_equal(high, groups.reduce_groups(x, granularity, np.maximum))


@pytest.mark.parametrize("granularity", GRANULARITIES, ids=str)
def test_nothing_is_quantized_to_nothing(granularity):
    shape = (2, 0, 3)
    scale = np.ones(granularity.scale_shape(shape), np.float32)
    x = np.zeros(shape, np.float32)
    assert kernels.quantize(x, scale, INT8, granularity, None).shape == shape
    assert kernels.quantize_half(x.astype(np.float16), scale.astype(np.float16), INT8, granularity).shape == shape


@pytest.mark.parametrize(
    ("granularity", "expected"),
    [
        (PerTensor(), True),
        (PerAxis(0), True),
        (PerAxis(1), True),
        (PerAxis(2), False),
        (PerAxis(-1), False),
        (Blocked(2, 2), True),
        (Blocked(-1, 1), True),
        (Blocked(1, 2), False),
    ],
    ids=str,
)
def test_rows_have_one_scale_each_unless_neighbours_have_different_scales(granularity, expected):
    assert kernels.has_ranges((2, 3, 2), granularity) is expected


@pytest.mark.parametrize("quantize", ["quantize", "quantize_half"])
def test_a_scale_of_another_shape_is_refused(quantize):
    dtype, more = (np.float32, (None,)) if quantize == "quantize" else (np.float16, ())
    with pytest.raises(ArgumentError, match=r"scale has shape \[2\]; per-axis 0 .* needs \[3\]"):
        getattr(kernels, quantize)(np.ones((3, 4), dtype), np.ones(2, dtype), INT8, PerAxis(0), *more)


@pytest.mark.parametrize("name", numbers.QUANTIZED)
def test_all_formats_but_the_floats_without_negative_zero_have_a_kernel(name):
    fmt = formats.get(name)
    minus_zero = fmt.kind == "float" and np.signbit(np.asarray(-0.0).astype(fmt.dtype).astype(np.float32))
    assert kernels.supports(fmt) == (fmt.kind == "integer" or bool(minus_zero))


@pytest.fixture(params=["compiled", "not compiled"])
def enough(request, monkeypatch):
    """The number of elements from which arrays are worth a kernel; with a stand-in for the kernels, or without any."""
    monkeypatch.setattr(kernels, "SMALL", 64)
    monkeypatch.setattr(kernels, "WORTH_IT", 128)
    monkeypatch.setattr(kernels, "available", lambda: True)
    for name in (ROWS, HALF_ROWS):
        monkeypatch.delitem(sys.modules, name, raising=False)
        if request.param == "compiled":
            monkeypatch.setitem(sys.modules, name, ModuleType(name))
    return 64 if request.param == "compiled" else 128


def test_float32_is_worth_a_kernel_from_a_size_on_which_is_larger_before_it_is_compiled(enough, monkeypatch):
    x = np.zeros((2, enough // 2), np.float32)
    assert kernels.wanted(x)
    assert not kernels.wanted(x.reshape(-1)[1:])
    assert not kernels.wanted(x.T)
    assert not kernels.wanted(x.astype(np.float16))
    monkeypatch.setattr(kernels, "available", lambda: False)
    assert not kernels.wanted(x)


def test_float16_over_float16_is_worth_a_kernel_from_a_size_on(enough, monkeypatch):
    x, scale = np.zeros((2, enough // 2), np.float16), np.ones((), np.float16)
    assert kernels.wanted_half(x, scale, INT8)
    assert not kernels.wanted_half(x.reshape(-1)[1:], scale, INT8)
    assert not kernels.wanted_half(x.T, scale, INT8)
    assert not kernels.wanted_half(x.astype(np.float32), scale, INT8)
    assert not kernels.wanted_half(x, scale.astype(np.float32), INT8)
    monkeypatch.setattr(kernels, "available", lambda: False)
    assert not kernels.wanted_half(x, scale, INT8)


@pytest.mark.parametrize("enough", ["compiled"], indirect=True)
@pytest.mark.parametrize("name", numbers.QUANTIZED)
def test_float16_has_kernels_for_integers_of_a_byte_and_for_fp4(name, enough):
    expected = name in {"int2", "uint2", "int4", "uint4", "int8", "uint8", "float4e2m1"}
    assert kernels.wanted_half(np.zeros(enough, np.float16), np.ones((), np.float16), formats.get(name)) == expected


def test_an_even_number_of_nibbles_is_worth_packing_from_a_size_on(enough, monkeypatch):
    codes = np.zeros((2, enough // 2 + 1), np.int8)
    assert kernels.worth_packing(codes)
    assert kernels.worth_packing(codes.reshape(-1)[2:])
    assert not kernels.worth_packing(codes.reshape(-1)[4:])
    assert not kernels.worth_packing(codes.reshape(-1)[1:])
    assert not kernels.worth_packing(codes.T)
    monkeypatch.setattr(kernels, "available", lambda: False)
    assert not kernels.worth_packing(codes)


@pytest.mark.parametrize("module", [None, ModuleType(ROWS)])
def test_kernels_are_available_where_their_module_can_be_imported(module, monkeypatch):
    monkeypatch.setitem(sys.modules, ROWS, module)
    kernels.available.cache_clear()
    try:
        assert kernels.available() is (module is not None)
    finally:
        kernels.available.cache_clear()
