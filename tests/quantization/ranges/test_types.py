"""Ranges, their parts and their records."""

from math import inf

import numpy as np
import pytest
from support.magnitudes import seen

from qdqtool.quantization.calibration_report import Trial
from qdqtool.quantization.ranges.types import (
    UNSEEN,
    CalibrationRecord,
    PreparationStep,
    Ranges,
    RangesPart,
    TensorRange,
)

RECORD = CalibrationRecord(method="max", samples=80, random=False, seed=None, data_sha256="d", model_sha256="m")
PLAIN = TensorRange(-1.0, 2.0, 2.0, 4)


def test_one_range_without_a_histogram_leaves_both_without():
    counted = seen(np.float32([-3, 1]))
    assert counted.merge(PLAIN) == PLAIN.merge(counted) == TensorRange(-3.0, 2.0, 3.0, 6)
    assert counted.merge(counted).histogram == seen(np.float32([-3, 1, -3, 1])).histogram


def test_a_tensor_without_values_changes_nothing_on_either_side():
    counted = seen(np.float32([-3, 1]))
    assert counted.merge(UNSEEN) == UNSEEN.merge(counted) == counted
    assert UNSEEN.merge(UNSEEN) == UNSEEN == TensorRange(inf, -inf, 0.0, 0, None)


def test_ranges_know_their_samples_and_what_had_no_values():
    tensors = {((), "x"): PLAIN, (("s",), "y"): UNSEEN}
    assert Ranges(RECORD, tensors).samples == 80
    assert Ranges(RECORD, tensors, part=RangesPart(16, 48, 32)).samples == 16
    assert Ranges(RECORD, tensors).unseen() == ((("s",), "y"),)
    assert RECORD.chunk == 16


@pytest.mark.parametrize(
    ("part", "is_whole"), [(RangesPart(0, 8, 8), True), (RangesPart(0, 8, 7), False), (RangesPart(0, 8, 0), False)]
)
def test_a_part_is_whole_when_its_last_sample_is_done(part, is_whole):
    assert part.is_whole is is_whole


@pytest.mark.parametrize(
    ("trial", "was_made"), [(None, True), (Trial(samples=1, kept=True), True), (Trial(samples=1, kept=False), False)]
)
def test_a_step_was_made_unless_its_trial_rejected_it(trial, was_made):
    step = PreparationStep("smoothquant", trial=trial)
    assert step.was_made is was_made
    assert step == PreparationStep("smoothquant")
    assert step != PreparationStep("batchnorm")
