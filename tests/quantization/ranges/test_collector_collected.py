"""The ranges of a collector so far."""

from collections.abc import Iterator
from dataclasses import replace

from qdqtool.quantization.ranges.collector import CollectedRanges
from qdqtool.quantization.ranges.types import UNSEEN, CalibrationRecord, Ranges, TensorRange

X, Y = ((), "x"), (("body",), "y")


class Collected(CollectedRanges):
    def chunks(self, *_, **__) -> Iterator[int]:
        yield from ()


def spread(low: float, high: float) -> TensorRange:
    return TensorRange(low, high, max(-low, high), 2)


def test_ranges_of_all_samples_and_of_those_that_choose_grow_apart():
    found = Collected((X, Y), holds_back=True)
    found.merge({X: spread(-1, 2), Y: spread(0, 1)}, {X: spread(-1, 1), Y: UNSEEN})
    found.merge({X: spread(-3, 1), Y: spread(0, 4)}, {X: spread(-2, 0), Y: spread(0, 4)})

    assert found.ranges == {X: replace(spread(-3, 2), count=4), Y: replace(spread(0, 4), count=4)}
    assert found.choosing == {X: replace(spread(-2, 1), count=4), Y: spread(0, 4)}


def test_where_nothing_is_held_back_there_are_no_ranges_of_those_that_choose():
    found = Collected((X,), holds_back=False)
    found.merge({X: spread(0, 1)}, {})

    assert found.ranges == {X: spread(0, 1)}
    assert found.choosing is None


def test_a_tensor_that_could_not_be_read_everywhere_is_unseen():
    found = Collected((X, Y), holds_back=True)
    found.merge({X: spread(0, 1), Y: spread(0, 2)}, {X: spread(0, 1), Y: spread(0, 2)})
    found.unreadable[X] = "a branch"

    assert found.ranges == {X: UNSEEN, Y: spread(0, 2)}
    assert found.choosing == {X: UNSEEN, Y: spread(0, 2)}


def test_a_run_goes_on_from_stored_ranges():
    record = CalibrationRecord(method="max", samples=4, random=True, seed=0, data_sha256="", model_sha256="")
    found = Collected((X, Y), holds_back=True)
    stored = Ranges(
        record=record, tensors={X: spread(0, 1)}, unreadable={Y: "a branch"}, choosing={X: spread(0, 0.5), Y: UNSEEN}
    )
    found.resume(stored)
    found.merge({X: spread(-1, 0), Y: spread(0, 2)}, {X: UNSEEN, Y: UNSEEN})

    assert found.ranges == {X: replace(spread(-1, 1), count=4), Y: UNSEEN}
    assert found.choosing == {X: spread(0, 0.5), Y: UNSEEN}
