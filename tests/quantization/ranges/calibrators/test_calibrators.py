"""Every calibrator: what holds for all of them."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.magnitudes import seen

from qdqtool.errors import ArgumentError
from qdqtool.numerics import formats
from qdqtool.quantization.ranges import calibrators
from qdqtool.quantization.ranges.calibrators import Threshold
from qdqtool.quantization.ranges.types import TensorRange

GOAL = calibrators.RangeGoal(format=formats.get("int8"))
SEEN = [TensorRange(-3.0, 2.0, 3.0, 10), TensorRange(0.0, 0.0, 0.0, 1), TensorRange(1e-30, 1e30, 1e30, 2)]
SIGNED = [formats.get(name) for name in ("int4", "int8", "int16", "float8e4m3fn", "float8e5m2", "float4e2m1")]
FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)


@pytest.mark.parametrize("name", calibrators.names())
@given(values=st.lists(FLOATS, min_size=1, max_size=30))
def test_a_threshold_lies_above_zero_and_not_above_the_largest_magnitude(name, values):
    found = seen(np.array(values, np.float32))
    threshold = calibrators.get(name).threshold(found, GOAL).amax
    assert 0 < threshold <= found.amax or threshold == found.amax == 0


@pytest.mark.parametrize("name", calibrators.names())
@pytest.mark.parametrize("fmt", SIGNED, ids=str)
def test_every_method_has_an_answer_for_every_signed_format(name, fmt, values):
    threshold = calibrators.get(name).threshold(seen(values), replace(GOAL, format=fmt))
    assert 0 < threshold.amax <= np.abs(values).max()
    assert threshold.reason


@pytest.mark.parametrize("name", calibrators.names())
def test_the_order_and_grouping_of_values_make_no_difference(name, values):
    parts = np.array_split(np.random.default_rng(1).permutation(values), 3)
    merged = seen(parts[2]).merge(seen(parts[0])).merge(seen(parts[1]))
    assert calibrators.get(name).threshold(merged, GOAL) == calibrators.get(name).threshold(seen(values), GOAL)


@pytest.mark.parametrize("name", calibrators.names())
@pytest.mark.parametrize("value", [-3.0, 0.1, 1e-30])
def test_a_constant_tensor_keeps_its_value(name, value):
    found = seen(np.full(1000, value, np.float32))
    assert calibrators.get(name).threshold(found, GOAL).amax == pytest.approx(found.amax, rel=2e-3)


@pytest.mark.parametrize("name", calibrators.names())
def test_a_power_of_two_scales_the_threshold_with_the_values(name, values):
    one, eight = (calibrators.get(name).threshold(seen(values * factor), GOAL).amax for factor in (1, 8))
    assert eight == 8 * one


def test_max_is_the_largest_magnitude(values):
    assert calibrators.get("max").threshold(seen(values), GOAL).amax == np.abs(values).max()


@pytest.mark.parametrize("name", calibrators.names())
@pytest.mark.parametrize("found", [*SEEN, seen(np.zeros(4, np.float32))])
def test_without_counts_above_zero_the_reason_is_that_nothing_is_clipped(name, found):
    method = "max" if name == "auto" else name
    assert calibrators.get(name).threshold(found, GOAL) == Threshold(found.amax, method, "nothing is clipped")


def test_every_method_but_max_reads_histograms():
    assert [name for name in calibrators.names() if not calibrators.get(name).needs_histogram] == ["max"]


def test_a_goal_is_neither_peaked_nor_without_a_percentile():
    assert (GOAL.peaked, GOAL.percentile) == (False, 99.99)


def test_an_unknown_method_lists_the_legal_ones():
    with pytest.raises(ArgumentError, match=r"method 'maxx' is unknown; legal: .*max.*; did you mean 'max'"):
        calibrators.get("maxx")
