"""Ranges of a collector: of the choosing part beside all samples, and of one tensor however its values come."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.magnitudes import seen
from support.small import conv_model

from qdqtool.jobs.calibrate import CalibrationPlace, calibrate
from qdqtool.numerics.counting import Counter
from qdqtool.quantization.planning.options import Preparation
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.quantization.ranges.collector import CollectedRanges, TensorStatistics, range_of
from qdqtool.quantization.ranges.file import encode_ranges, read_ranges
from qdqtool.quantization.ranges.histogram import Histogram
from qdqtool.quantization.ranges.shard import Shard
from qdqtool.quantization.ranges.types import CHUNK, UNSEEN, CalibrationRecord, Ranges, TensorRange
from qdqtool.samples.request import FileData
from qdqtool.samples.split import split_samples

COUNT = 3 * CHUNK + 5
AS_IT_IS = Preparation(equalize=False, smoothquant=None, bias_correction=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model, and samples that grow, so that histograms are widened on the way."""
    onnx.save(conv_model(), tmp_path / "m.onnx")
    x = np.random.default_rng(5).normal(size=(COUNT, 3, 8, 8)).astype(np.float32)
    x *= np.linspace(0.1, 9, COUNT, dtype=np.float32)[:, None, None, None]
    np.savez(tmp_path / "all.npz", x=x)
    np.savez(tmp_path / "choosing.npz", x=x[list(split_samples(COUNT).choosing)])
    return tmp_path


@pytest.mark.parametrize("method", ["max", "entropy"])
def test_the_choosing_part_has_the_ranges_of_a_run_over_it_alone(folder, method):
    recipe = Recipe(method=method, preparation=AS_IT_IS)
    whole, alone = (calibrate(folder / "m.onnx", folder / name, recipe) for name in ("all.npz", "choosing.npz"))
    assert whole.choosing is not None
    assert dict(whole.choosing) == dict(alone.tensors)
    assert dict(whole.tensors) != dict(alone.tensors)


def test_the_model_runs_once_for_both(folder, monkeypatch):
    numbers: list[int] = []
    recipe = Recipe(method="max", preparation=AS_IT_IS)
    calibrate(folder / "m.onnx", folder / "all.npz", recipe, lambda number, _: numbers.append(number))
    assert numbers == list(range(COUNT))


def test_a_finished_file_does_not_keep_the_choosing_part(folder, tmp_path):
    for shard in (None, Shard(1, 2)):
        found = calibrate(
            folder / "m.onnx", folder / "all.npz", Recipe(preparation=AS_IT_IS), place=CalibrationPlace(shard=shard)
        )
        (tmp_path / "r.json").write_bytes(encode_ranges(found))
        assert found.choosing is not None
        assert read_ranges(tmp_path / "r.json").choosing is None


def test_few_samples_are_not_divided(folder):
    for samples, divided in ((3, False), (4, True)):
        data = FileData(path=folder / "all.npz", samples=samples)
        found = calibrate(folder / "m.onnx", data, Recipe(preparation=AS_IT_IS))
        assert (found.choosing is not None) is divided


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


FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False) | st.just(0.0)


@given(st.lists(FLOATS, min_size=1, max_size=30), st.lists(st.integers(0, 30), max_size=5))
def test_the_grouping_of_values_makes_no_difference(values, cuts):
    plain, counting = TensorStatistics(), TensorStatistics(Counter())
    for start, stop in pairwise([0, *sorted(cuts), len(values)]):
        part = np.array(values[start:stop], np.float32)
        assert plain.add(part)
        assert counting.add(part)
    wanted = seen(np.array(values, np.float32))
    assert counting.result() == wanted
    assert plain.result() == TensorRange(wanted.min, wanted.max, wanted.amax, wanted.count)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("counter", [None, Counter()])
def test_values_that_are_not_finite_are_refused_and_not_counted(bad, counter):
    statistics = TensorStatistics(counter)
    assert statistics.add(np.float32([1, -2]))
    before = statistics.result()
    assert not statistics.add(np.float32([1, bad, 7]))
    assert statistics.result() == before


@pytest.mark.parametrize("counter", [None, Counter()])
def test_without_values_there_is_no_histogram(counter):
    statistics = TensorStatistics(counter)
    assert statistics.add(np.zeros((3, 0), np.float32))
    assert statistics.result() == UNSEEN


def test_zeros_alone_have_no_exponent():
    statistics = TensorStatistics(Counter())
    statistics.add(np.zeros(5, np.float32))
    statistics.add(np.zeros(2, np.float32))
    assert statistics.result() == TensorRange(0.0, 0.0, 0.0, 7, Histogram(None, Histogram.empty().counts, 7))


def test_a_result_does_not_change_when_more_is_added():
    statistics = TensorStatistics(Counter())
    statistics.add(np.float32([1, 2]))
    before = statistics.result()
    statistics.add(np.float32([1, 0, 9]))
    assert before == seen(np.float32([1, 2]))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16])
def test_the_range_of_an_array_has_its_ends(dtype):
    assert range_of(np.array([[-3, 2], [-0.5, 0]], dtype)) == TensorRange(-3.0, 2.0, 3.0, 4)
    assert range_of(np.array([1, 4], dtype)) == TensorRange(1.0, 4.0, 4.0, 2)
    assert range_of(np.zeros(0, dtype)) == UNSEEN


def test_a_negative_zero_is_zero():
    found = range_of(np.float32([-0.0, -0.0]))
    assert not np.signbit([found.min, found.max, found.amax]).any()
