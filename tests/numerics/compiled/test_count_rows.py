"""The compiled count of magnitudes, against NumPy's histogram."""

import numpy as np
import pytest

from qdqtool.numerics.counting import BINS, new_table

pytest.importorskip("numba")

from qdqtool.numerics.compiled.count_rows import count

RNG = np.random.default_rng(9)
VALUES = {
    "normal": RNG.normal(size=5_000),
    "half zeros": np.maximum(RNG.normal(size=5_000), 0),
    "zeros of both signs": np.float32([0.0, -0.0]).repeat(1_500),
    "subnormal": RNG.random(2_000) * 1e-41,
    "a tail of three": RNG.normal(size=1_024 + 3),
    "three": np.float32([0.5, -0.25, 0.0]),
    "none": np.float32([]),
}


def histogram(values, exponent):
    """Zeros, then the bins of numpy.histogram, whose edges are exact in longdouble."""
    edges = np.ldexp(np.arange(BINS + 1).astype(np.longdouble), exponent)
    counts, _ = np.histogram(np.abs(values[values != 0].astype(np.longdouble)), edges)
    return np.concatenate([[np.count_nonzero(values == 0)], counts])


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("exponent", [-11, 0, 20])
def test_bins_have_the_counts_of_the_histogram(name, exponent):
    values, table = VALUES[name].astype(np.float32), new_table()
    count(values, np.float32(2.0**-exponent), table)
    np.testing.assert_array_equal(table, histogram(values, exponent))


def test_values_on_an_edge_belong_to_the_bin_above():
    table = new_table()
    count(np.float32([1.0, np.nextafter(np.float32(1), np.float32(0)), -2.0]), np.float32(1), table)
    assert table[:4].tolist() == [0, 1, 1, 1]


def test_counts_are_added_to_what_the_table_holds():
    table = np.full(BINS + 1, 5, np.int64)
    count(np.zeros(1_030, np.float32), np.float32(1), table)
    assert table[:2].tolist() == [1_035, 5]
