"""Counting magnitudes: NumPy's own histogram is the oracle, and compiled code counts the same."""

import sys
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from qdqtool.numerics import counting
from qdqtool.numerics.counting import BINS, Counter, new_table
from qdqtool.quantization.ranges.histogram import exponent_for

RNG = np.random.default_rng(3)
SIZES = {
    "normal": RNG.normal(size=50_000).astype(np.float32),
    "relu": np.maximum(RNG.normal(size=50_000), 0).astype(np.float32),
    "zeros": np.zeros(5_000, np.float32),
    "heavy tail": (RNG.normal(size=50_001) ** 9).astype(np.float32),
    "subnormal": (RNG.random(5_000) * 1e-41).astype(np.float32),
    "largest": np.float32([3.4028235e38, -3.4028235e38, 0, 1]).repeat(2_000),
    "doubles": RNG.normal(size=5_000) * 1e-320,
    "large doubles": np.float64([1.7e308, -1e300, 2.0, 0.0]),
    "halves": RNG.normal(size=5_000).astype(np.float16),
}


def bins_of(values: np.ndarray, exponent: int) -> np.ndarray:
    """np.histogram over the same edges, which are exact in longdouble; zeros apart."""
    edges = np.ldexp(np.arange(BINS + 1).astype(np.longdouble), exponent)
    sizes = np.abs(values[values != 0].astype(np.longdouble)).ravel()
    counts = np.histogram(sizes, edges)[0]
    return np.concatenate([[np.count_nonzero(values == 0)], counts])


def counted(values: np.ndarray, exponent: int, counter: Counter) -> np.ndarray:
    table = new_table()
    counter.count(values, exponent, table)
    return table


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("wider", [0, 1, 20])
def test_numpy_counts_what_its_histogram_has(name, wider):
    values = SIZES[name]
    exponent = (exponent_for(float(np.abs(values).max())) or 0) + wider
    assert np.array_equal(counted(values, exponent, Counter()), bins_of(values, exponent))


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("wider", [0, 1, 20])
def test_compiled_code_counts_the_same(name, wider):
    pytest.importorskip("numba")
    values = SIZES[name]
    exponent = (exponent_for(float(np.abs(values).max())) or 0) + wider
    compiled = Counter()
    compiled.expect(counting.WORTH_IT)
    assert np.array_equal(counted(values, exponent, compiled), counted(values, exponent, Counter()))


@given(arrays(np.float32, st.integers(1, 50), elements=st.floats(width=32, allow_nan=False, allow_infinity=False)))
def test_any_floats(values):
    exponent = exponent_for(float(np.abs(values).max())) or 0
    assert np.array_equal(counted(values, exponent, Counter()), bins_of(values, exponent))


def test_an_array_of_any_order_is_counted():
    values = RNG.normal(size=(30, 40, 50)).astype(np.float32)
    assert np.array_equal(counted(values[::2].T, -8, Counter()), bins_of(values[::2], -8))


def test_compiled_code_is_fetched_for_large_samples_however_many_there_are(monkeypatch):
    fetched = []
    monkeypatch.setattr(counting, "available", lambda: fetched.append(True))
    counter = Counter()
    for _ in range(1000):
        counter.expect(counting.WORTH_IT - 1)
    assert not fetched
    counter.expect(counting.WORTH_IT)
    assert fetched


def test_counts_are_added_to_what_is_there():
    table = new_table()
    for _ in range(2):
        Counter().count(np.float32([0, 0, 1.5, -2.5]), 0, table)
    assert table[:4].tolist() == [4, 0, 2, 2]


@pytest.fixture
def calls(monkeypatch):
    """What the compiled kernel is called with: the type and number of values, and the factor."""
    name, calls = "qdqtool.numerics.compiled.count_rows", []
    kernel = ModuleType(name)
    kernel.count = lambda values, factor, _table: calls.append((values.dtype, values.size, factor))
    monkeypatch.setitem(sys.modules, name, kernel)
    counting.available.cache_clear()
    yield calls
    counting.available.cache_clear()


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("exponent", [0, -3, 127, -127])
def test_the_kernel_is_called_with_the_number_of_bins_in_one(calls, exponent, dtype):
    counter = Counter()
    counter.expect(counting.WORTH_IT)
    counter.expect(1)
    counter.count(np.zeros(counting.COMPILED_FROM, dtype), exponent, new_table())
    assert calls == [(np.dtype(np.float32), counting.COMPILED_FROM, 2.0**-exponent)]


@pytest.mark.parametrize(
    ("bytes_expected", "size", "dtype", "exponent"),
    [
        (counting.WORTH_IT - 1, counting.COMPILED_FROM, np.float32, 0),
        (counting.WORTH_IT, counting.COMPILED_FROM - 1, np.float32, 0),
        (counting.WORTH_IT, counting.COMPILED_FROM, np.float64, 0),
        (counting.WORTH_IT, counting.COMPILED_FROM, np.float32, 128),
        (counting.WORTH_IT, counting.COMPILED_FROM, np.float32, -128),
    ],
)
def test_small_or_wide_arrays_and_factors_beyond_float32_are_counted_in_numpy(
    calls, bytes_expected, size, dtype, exponent
):
    counter = Counter()
    counter.expect(bytes_expected)
    assert counted(np.zeros(size, dtype), exponent, counter)[0] == size
    assert not calls


def test_without_the_compiled_module_everything_is_counted_in_numpy(calls, monkeypatch):
    monkeypatch.setitem(sys.modules, "qdqtool.numerics.compiled.count_rows", None)
    counter = Counter()
    counter.expect(counting.WORTH_IT)
    assert counted(np.zeros(counting.COMPILED_FROM, np.float32), 0, counter)[0] == counting.COMPILED_FROM
    assert not calls


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("beyond", [-2, -1, 0, 1, 2])
def test_bins_narrower_than_the_smallest_inverse_of_the_type_are_counted(dtype, beyond):
    exponent = -(np.finfo(dtype).maxexp + beyond)
    values = np.ldexp(np.array([0, 1, 1.5, 3, 1000.5, 16383]), exponent).astype(dtype)
    assert np.array_equal(counted(values, exponent, Counter()), bins_of(values, exponent))
