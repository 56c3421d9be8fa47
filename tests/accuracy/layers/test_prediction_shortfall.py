"""What outputs lack of a goal, against sums by hand."""

import math

import numpy as np
import pytest

from qdqtool.accuracy.layers.prediction import noise_power, shortfall, sqnr_of_active_outputs
from qdqtool.numerics.noise import WORST_DB, Noise


def test_only_outputs_below_the_goal_lack_something():
    assert shortfall(np.array([20.0, 31.0, 30.0, 27.5]), 30.0) == 12.5
    assert shortfall(np.array([math.inf]), 30.0) == 0
    assert shortfall(np.array([[20.0, 29.0], [31.0, 28.0]]), 30.0).tolist() == [11.0, 2.0]


def test_an_output_that_is_zero_everywhere_is_not_heard_and_one_that_is_not_finite_is_the_worst():
    noise = Noise(np.array([[1.0, 0.0, 2.0], [3.0, 0.0, 2.0]]), np.array([[0.01, 5.0, 0.0], [0.03, 0.0, np.inf]]))
    assert sqnr_of_active_outputs(noise) == pytest.approx([20.0, -WORST_DB])
    assert noise_power(noise) == pytest.approx([0.04, 0.0, 4e30])
