"""Few wide bins of a histogram: the counts are those of NumPy on the values themselves."""

import numpy as np
import pytest
from support.magnitudes import counted, histogram

from qdqtool.quantization.ranges.activation_ranges import MOST_BINS, coarse_counts

VALUES = {
    "normal": np.random.default_rng(0).normal(size=5000),
    "tiny": np.random.default_rng(1).normal(size=500) * 2.0**-120,
    "powers of two": np.array([0.25, 0.5, 1.0, 2.0, 2.0]),
    "one value": np.array([-6.0]),
    "with zeros": np.array([0.0, 0.0, 3.0, -1.5]),
    "far apart": np.append(np.random.default_rng(2).normal(size=5000), [-1e4, 0.0]),
}


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("upto", [np.inf, 4.0, 2.0**-119])
def test_counts_are_those_of_the_values(name: str, upto: float):
    values = VALUES[name].astype(np.float32)
    found = coarse_counts(histogram(values), upto)

    assert np.frexp(found.bin_width)[0] == 0.5
    assert 0 < len(found.counts) <= MOST_BINS
    bins = np.floor(np.abs(values.astype(np.float64)) / found.bin_width)[values != 0]
    expected = [int((bins == number).sum()) for number in range(len(found.counts))]
    assert found.counts.tolist() == expected
    assert found.beyond == (bins >= len(found.counts)).sum()


@pytest.mark.parametrize("name", VALUES)
def test_all_values_are_shown_in_more_than_half_of_the_bins(name: str):
    found = coarse_counts(histogram(VALUES[name].astype(np.float32)))

    assert found.beyond == 0
    assert len(found.counts) > MOST_BINS / 2
    assert found.counts[-1] > 0


def test_values_up_to_a_magnitude_are_seen_apart_from_far_ones():
    values = VALUES["far apart"].astype(np.float32)
    found = coarse_counts(histogram(values), 4.0)

    assert (found.bin_width, found.beyond) == (1.0, 1)  # the histogram itself has no narrower ones
    near = np.abs(values[np.abs(values) < 100])
    assert found.counts.tolist() == [int(((near >= low) & (near < low + 1) & (near > 0)).sum()) for low in range(4)]


def test_bins_without_a_value_are_one_empty_bin():
    found = coarse_counts(counted({500: 2, 16000: 1}, exponent=0), 0.5)

    assert (found.bin_width, found.counts.tolist(), found.beyond) == (1.0, [0], 3)


def test_zeros_alone_have_no_bins():
    assert coarse_counts(histogram(np.zeros(3))) is None
