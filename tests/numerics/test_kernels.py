"""The compiled kernels against their NumPy twins, bit for bit. The twins are tested against exact rationals."""

import sys

import numpy as np
import pytest
from support import numbers

from qdqtool import formats
from qdqtool.numerics import affine, groups, kernels
from qdqtool.numerics.granularity import Blocked, PerAxis, PerTensor

pytest.importorskip("numba")

NAMES = [name for name in numbers.QUANTIZED if kernels.supports(formats.get(name))]
SHAPES = [(3, 70, 33), (1, 1), (70_000,), (2, 0, 3)]
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


def test_small_and_unsuitable_arrays_stay_with_numpy(monkeypatch):
    large = np.broadcast_to(np.float32(1), (kernels.WORTH_IT,))
    assert not kernels.wanted(large)  # not contiguous
    assert not kernels.wanted(np.zeros(kernels.SMALL - 1, np.float32))
    assert not kernels.wanted(np.zeros(kernels.SMALL, np.float16))
    monkeypatch.delitem(sys.modules, "qdqtool.numerics.compiled.rows", raising=False)
    assert not kernels.wanted(np.zeros(kernels.SMALL, np.float32))


def test_without_numba_everything_runs_in_numpy(monkeypatch):
    monkeypatch.setitem(sys.modules, "qdqtool.numerics.compiled.rows", None)
    kernels.available.cache_clear()
    try:
        assert not kernels.wanted(np.zeros(kernels.WORTH_IT, np.float32))
    finally:
        kernels.available.cache_clear()


def test_large_arrays_take_the_kernels(monkeypatch):
    monkeypatch.setattr(kernels, "WORTH_IT", 1000)
    monkeypatch.setattr(kernels, "SMALL", 1000)
    taken = []
    inner = kernels.quantize
    monkeypatch.setattr(kernels, "quantize", lambda *a: taken.append(1) or inner(*a))
    x = np.ones((10, 100), np.float32)
    affine.quantize(x, np.ones(10, np.float32), formats.get("int8"), PerAxis(0))
    affine.quantize(x, np.ones(10, np.float32), formats.get("float8e4m3fn"), PerAxis(0), saturate=False)
    assert taken == [1]
