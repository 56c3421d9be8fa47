"""Errors of single samples, joined, are those of all samples in one."""

import numpy as np

from qdqtool.models.running.accumulated_error import AccumulatedError


def test_errors_of_samples_are_joined_as_if_they_were_added_to_one():
    rng = np.random.default_rng(0)
    pairs = [(rng.integers(-9, 9, 16).astype(np.float32), rng.integers(-9, 9, 16).astype(np.float32)) for _ in range(4)]
    pairs[1][0][:3] = np.nan, np.inf, 2
    pairs[1][1][:3] = np.nan, 1, np.nan
    pairs[2] = (pairs[2][0], pairs[2][1][:5])
    whole = AccumulatedError()
    for reference, x in pairs:
        whole.add(reference, x)
    found = [AccumulatedError.of(reference, x) for reference, x in pairs]
    assert [each.elements for each in found] == [16, 16, 0, 16]
    assert AccumulatedError.joined(found) == whole
    assert (whole.other_shapes, whole.nonfinite, whole.nonfinite_mismatches) == (1, 2, 2)
    assert AccumulatedError.joined([]) == AccumulatedError()
