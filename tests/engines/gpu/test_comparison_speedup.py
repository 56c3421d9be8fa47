"""Ratios of times, the verdict on them, and clocks that differ."""

import numpy as np
import pytest

from qdqtool.engines.gpu.clocks import Clocks
from qdqtool.engines.gpu.comparison import clock_warning, compare_layers, judge, speedup_of
from qdqtool.engines.gpu.runner import LayerTime
from qdqtool.engines.gpu.speedup_gate import SpeedupGate
from qdqtool.engines.gpu.timing import MeasuredEngine


def test_the_speedup_is_the_ratio_of_the_medians():
    fast, slow = np.random.default_rng(0).gamma(9.0, 0.1, (2, 5, 21))
    found = speedup_of(MeasuredEngine(fast.tolist()), MeasuredEngine((3 * slow).tolist()))
    assert found.ratio == pytest.approx(np.median(3 * slow) / np.median(fast))
    rounds = np.median(3 * slow, axis=1) / np.median(fast, axis=1)
    assert (found.lowest, found.highest) == pytest.approx((rounds.min(), rounds.max()))


def test_a_slower_engine_has_a_speedup_below_1():
    assert speedup_of(MeasuredEngine([[2.0]]), MeasuredEngine([[1.0]])).ratio == 0.5


@pytest.mark.parametrize(("limit", "passed"), [(1.9, True), (2.0, True), (2.01, False)])
def test_the_gate_asks_for_at_least_its_ratio(limit, passed):
    comparison = compare_layers(
        [LayerTime("a", (), 1.0), LayerTime("b", (), 1.0)], [LayerTime("a", (), 2.0), LayerTime("b", (), 0.5)]
    )
    result = judge(SpeedupGate(limit), speedup_of(MeasuredEngine([[1.0]]), MeasuredEngine([[2.0]])), comparison)
    assert (result.passed, result.found) == (passed, "2.000x")
    assert [group.layers for group in result.slower_layers] == ([] if passed else [("b",)])


def test_a_gate_is_judged_where_layers_are_not_known():
    result = judge(SpeedupGate(3), speedup_of(MeasuredEngine([[1.0]]), MeasuredEngine([[2.0]])), None)
    assert not result.passed
    assert result.slower_layers == ()


@pytest.mark.parametrize(
    ("clocks", "warns"),
    [
        (((1000, 1000), (1040, 1050)), False),
        (((1000, 1000), (1060, 1070)), True),
        (((1100, 1000, 1000), (1000, 1000)), False),
        (((1000,), ()), False),
        (((1000,),), False),
    ],
)
def test_clocks_that_differ_are_told(clocks, warns):
    measured = [MeasuredEngine([[1.0]], [Clocks(sm, 5000) for sm in each]) for each in clocks]
    assert (clock_warning(measured) is not None) == warns
