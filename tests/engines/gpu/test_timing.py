"""Turns, percentiles and options of timing."""

import statistics

import numpy as np
import pytest
from support.fake_runner import FakeRunner

from qdqtool.engines.gpu.clocks import Clocks
from qdqtool.engines.gpu.timing import MeasuredEngine, TimingOptions, random_sample, time_in_turn
from qdqtool.errors import UsageError
from qdqtool.samples.signature import InputSpec

SAMPLE = {"x": np.zeros((1, 3), np.float32)}


class Meter:
    def __init__(self, *clocks: Clocks | None) -> None:
        self.clocks = iter(clocks)

    def read(self) -> Clocks | None:
        return next(self.clocks, None)


def test_percentiles_of_known_times():
    found = MeasuredEngine([[float(each) for each in range(100, -1, -1)]]).percentiles()
    assert (found.p50, found.p90, found.p99) == (50, 90, 99)
    assert (found.count, found.mean, found.min, found.max) == (101, 50, 0, 100)


def test_percentiles_are_those_of_another_library():
    times = np.random.default_rng(1).gamma(2.0, 1.0, (4, 63))
    found = MeasuredEngine(times.tolist()).percentiles()
    hundredths = statistics.quantiles(times.reshape(-1).tolist(), n=100, method="inclusive")
    assert (found.p50, found.p90, found.p99) == pytest.approx((hundredths[49], hundredths[89], hundredths[98]))


def test_below_100_times_there_is_no_99th_percentile():
    assert MeasuredEngine([[1.0] * 50, [1.0] * 49]).percentiles().p99 is None
    assert MeasuredEngine([[1.0] * 50, [1.0] * 50]).percentiles().p99 == 1


def test_engines_take_turns_and_each_is_first_in_half_of_the_rounds():
    calls: list[tuple] = []
    runners = [
        FakeRunner(times=range(8), calls=calls, name="a"),
        FakeRunner(times=range(10, 18), calls=calls, name="b"),
    ]
    clocks = [Clocks(1000 + each, 5000) for each in range(7)]
    told: list[tuple[int, int]] = []

    measured = time_in_turn(
        [(runner, SAMPLE) for runner in runners],
        TimingOptions(rounds=4, runs=2, warm_up=3),
        Meter(*clocks),
        lambda done, total: told.append((done, total)),
    )

    assert [call[0] for call in calls] == ["a", "b", "b", "a", "a", "b", "b", "a"]
    assert {call[1:] for call in calls} == {("time", 3, 2)}
    assert [each.rounds for each in measured] == [
        [[0, 1], [2, 3], [4, 5], [6, 7]],
        [[10, 11], [12, 13], [14, 15], [16, 17]],
    ]
    assert [[clock.sm for clock in each.clocks] for each in measured] == [[1000, 1003, 1004], [1001, 1002, 1005, 1006]]
    assert told == [(each, 8) for each in range(1, 9)]


@pytest.mark.parametrize("wrong", [{"rounds": 0}, {"runs": 0}, {"warm_up": -1}, {"profiled": 0}])
def test_options_that_measure_nothing_are_refused(wrong):
    (name,) = wrong
    with pytest.raises(UsageError, match=f"{name} is .*; it must be at least"):
        TimingOptions(**wrong)


SPECS = (
    InputSpec("image", np.dtype(np.float16), (2, 3, 4)),
    InputSpec("ids", np.dtype(np.int64), (1, 500)),
    InputSpec("flag", np.dtype(np.bool_), ()),
)


def test_there_is_one_sample_with_the_types_and_shapes_of_the_inputs():
    (sample,) = random_sample(SPECS)
    assert {name: (array.dtype, array.shape) for name, array in sample.items()} == {
        spec.name: (spec.dtype, spec.shape) for spec in SPECS
    }
    assert set(np.unique(sample["ids"])) == set(range(10))


def test_it_is_the_same_each_time_and_says_that_it_is_random():
    first, second = random_sample(SPECS), random_sample(SPECS)
    assert all(np.array_equal(next(iter(first))[name], next(iter(second))[name]) for name in ("image", "ids"))
    assert first.description.seed == 0
    assert first.description.shapes == {"image": (2, 3, 4), "ids": (1, 500), "flag": ()}
