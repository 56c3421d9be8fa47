"""What another method would have chosen is what it chooses when it is asked."""

from dataclasses import replace

import numpy as np
import pytest
from support.magnitudes import seen

from qdqtool.models.plan import Slot
from qdqtool.numerics import formats
from qdqtool.quantization.ranges import calibrators
from qdqtool.quantization.ranges.activation_ranges import RangeChoice, bound_threshold, final_thresholds
from qdqtool.quantization.ranges.calibrators import RangeGoal
from qdqtool.quantization.ranges.method_choice import encode_choice, threshold
from qdqtool.quantization.ranges.types import CalibrationRecord

RECORD = CalibrationRecord(method="auto", samples=1, random=False, seed=None, data_sha256="", model_sha256="")
VALUES = {
    "normal": np.random.default_rng(0).standard_t(3, 5000).astype(np.float32),
    "strays": np.append(np.random.default_rng(1).normal(size=50_000), 1e3).astype(np.float32),
    "uniform": np.random.default_rng(2).uniform(-1, 1, 5000).astype(np.float32),
}


def choice(values: np.ndarray, method: str = "auto", group: int | None = None, *, peaked: bool = False) -> RangeChoice:
    goal, found = RangeGoal(format=formats.get("int8"), peaked=peaked), seen(values)
    own = threshold(method, found, goal, automatic=method == "auto")
    return RangeChoice(Slot((), "x"), found, goal, own, group)


def test_auto_clips_what_lies_far_apart_and_mse_does_not():
    made = choice(VALUES["strays"])

    assert made.own.apart == "strays"
    assert made.by("mse", RECORD).own.amax == 1000 > made.own.amax


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("peaked", [False, True])
@pytest.mark.parametrize("first", calibrators.names())
@pytest.mark.parametrize("second", calibrators.names())
def test_it_is_the_threshold_of_the_method(name: str, peaked: bool, first: str, second: str):
    made = choice(VALUES[name], first, peaked=peaked)
    expected = calibrators.get(second).threshold(made.seen, made.goal)

    found = made.by(second, RECORD).own
    # A method that `auto` called has the reason of `auto`.
    assert (found.amax, found.method, found.apart) == (expected.amax, expected.method, expected.apart)


def test_auto_is_the_method_that_was_chosen_for_the_model():
    made = choice(VALUES["normal"], "max")
    recorded = replace(RECORD, preparation=(encode_choice("entropy"),))

    assert made.by("auto", recorded).own == calibrators.get("entropy").threshold(made.seen, made.goal)
    assert made.by("mse", recorded).own == calibrators.get("mse").threshold(made.seen, made.goal)


def test_a_bound_counts_whatever_the_method():
    made = replace(choice(VALUES["uniform"]), own=bound_threshold(2.0))

    assert made.is_bound
    assert {made.by(name, RECORD).own.amax for name in calibrators.names()} == {2.0}


def test_a_group_has_the_largest_range_of_its_members():
    sizes = {0: [1.0, 3.0, 3.0], 1: [2.0], None: [9.0, 0.5]}
    members = [(group, amax) for group, found in sizes.items() for amax in found]
    choices = [choice(np.float32([amax]), "max", group) for group, amax in members]
    found = final_thresholds(choices)

    assert [each.amax for each in found] == [3.0, 3.0, 3.0, 2.0, 9.0, 0.5]
    assert found[0] is found[2] is choices[1].own
