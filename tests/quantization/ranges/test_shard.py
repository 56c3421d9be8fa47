"""Shards: how they are written, what they hold, and that merged shards are one run."""

from dataclasses import replace
from itertools import chain, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.magnitudes import seen as counted
from support.refusals import refused

from qdqtool.errors import ArgumentError, UsageError
from qdqtool.quantization.ranges.file import encode_ranges
from qdqtool.quantization.ranges.shard import Shard, merge_ranges, parse_shard
from qdqtool.quantization.ranges.types import (
    UNSEEN,
    CalibrationRecord,
    PreparationStep,
    Ranges,
    RangesPart,
    TensorRange,
)


@pytest.mark.parametrize(
    ("number", "of", "message"),
    [
        (1, 0, "shard 1/0 does not exist: there is at least one shard"),
        (0, 2, "shard 0/2 does not exist; shards count from 1 to 2"),
        (3, 2, "shard 3/2 does not exist; shards count from 1 to 2"),
    ],
)
def test_a_shard_that_does_not_exist_is_refused(number, of, message):
    with refused(ArgumentError, message):
        Shard(number, of)
    with refused(UsageError, message):
        parse_shard(f"{number}/{of}", "--shard")


@pytest.mark.parametrize(
    ("number", "of", "samples", "part"),
    [
        (1, 1, 5, RangesPart(0, 5, 0)),
        (1, 1, 32, RangesPart(0, 32, 0)),
        (1, 2, 17, RangesPart(0, 16, 0)),
        (2, 2, 17, RangesPart(16, 17, 16)),
        (1, 3, 100, RangesPart(0, 32, 0)),
        (2, 3, 100, RangesPart(32, 64, 32)),
        (3, 3, 100, RangesPart(64, 100, 64)),
    ],
)
def test_a_shard_holds_whole_chunks_and_the_last_one_the_rest(number, of, samples, part):
    assert Shard(number, of).part(samples) == part


@pytest.mark.parametrize(
    ("of", "samples", "hint"),
    [
        (2, 16, "leave the option out"),
        (3, 17, "at most 2 are possible: `--shard 1/2`"),
        (4, 48, "at most 3 are possible: `--shard 1/3`"),
    ],
)
def test_more_shards_than_chunks_are_refused(of, samples, hint):
    with refused(
        UsageError, f"{samples} samples cannot be cut into {of} shards: a shard has at least one chunk of 16", hint=hint
    ):
        Shard(1, of).part(samples)


@pytest.mark.parametrize(
    ("text", "shard"), [("1/1", Shard(1, 1)), ("12/34", Shard(12, 34)), ("1/1000000000000", Shard(1, 10**12))]
)
def test_a_number_and_a_count_make_a_shard(text, shard):
    assert parse_shard(text, "--shard") == shard


WORDS = ["", "a/b", "-1/2", " 1/2", "1/ 2"]


@pytest.mark.parametrize(
    "text", [*WORDS, "2", "2/", "/2", "1:2", "1/-2", "²/3", "1/³", "٣/4", "1/10000000000000", "1/2/3"]
)
def test_any_other_text_is_refused_with_an_example(text):
    with refused(UsageError, f"--part is '{text}'; it must be I/N, such as 2/4 for the second of four"):
        parse_shard(text, "--part")


RECORD = CalibrationRecord(
    method="entropy", samples=80, random=False, seed=None, data_sha256="d", model_sha256="m", parameters={}
)
KEY = ((), "x")
FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False) | st.just(0.0)


def seen(values: list[float]) -> TensorRange:
    """The range of values with its histogram; 0 has no sign there."""
    return counted(np.array(values) + 0.0) if values else UNSEEN


def run(chunks: list[list[float]], start: int, stop: int) -> Ranges:
    """What a run over some of the chunks gives, each of 16 samples that hold its values."""
    found = {KEY: seen(list(chain(*chunks[start:stop])))}
    return Ranges(RECORD, found, part=RangesPart(16 * start, 16 * stop, 16 * stop))


def shard(start: int, stop: int, **changes: object) -> Ranges:
    return Ranges(replace(RECORD, **changes), {KEY: seen([1.0])}, part=RangesPart(start, stop, stop))


@given(st.lists(st.lists(FLOATS, max_size=6), min_size=5, max_size=5), st.sets(st.integers(1, 4)), st.randoms())
def test_any_sharding_in_any_order_gives_the_bytes_of_one_run(chunks, cuts, random):
    shards = [("", run(chunks, start, stop)) for start, stop in pairwise([0, *sorted(cuts), 5])]
    random.shuffle(shards)
    assert encode_ranges(merge_ranges(shards)) == encode_ranges(replace(run(chunks, 0, 5), part=None))


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"model_sha256": "n"}, "model"),
        ({"preparation": (PreparationStep("batchnorm"),)}, "model"),
        ({"data_sha256": "e"}, "data"),
        ({"samples": 96}, "data, 80 and 96 samples"),
        ({"chunk": None}, "data"),
        ({"seed": 3}, "seed"),
        ({"random": True}, "seed"),
        ({"seed": 0}, "seed"),
        ({"random": True, "seed": 0}, "seed"),
        ({"method": "max"}, "method, 'entropy' and 'max'"),
        ({"parameters": {"percentile": 99.0}}, "method, 'entropy' and 'entropy percentile=99.0'"),
        ({"parameters": {"b": 1, "a": 2}}, "method, 'entropy' and 'entropy a=2 b=1'"),
    ],
)
def test_a_shard_of_something_else_is_refused(changes, what):
    hint = "calibrate each shard with the same model, data and options; only the number of the shard differs"
    with refused(UsageError, f"a and b cannot be merged: they differ in the {what}", hint=hint):
        merge_ranges([("a", shard(0, 32)), ("b", shard(32, 80, **changes))])


def test_other_tensors_are_refused():
    other = replace(shard(32, 80), tensors={((), "y"): seen([1.0])})
    with pytest.raises(UsageError, match="differ in the set of tensors"):
        merge_ranges([("a", shard(0, 32)), ("b", other)])


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ([(0, 32), (48, 80)], "no shard holds samples 32 to 47 of 80"),
        ([(0, 32), (33, 80)], "no shard holds samples 32 to 32 of 80"),
        ([(16, 80)], "no shard holds samples 0 to 15 of 80"),
        ([(0, 64)], "no shard holds samples 64 to 79 of 80"),
        ([(0, 48), (32, 80)], "s0 and s1 both hold samples 32 to 47"),
        ([(0, 80), (16, 48)], "s0 and s1 both hold samples 16 to 47"),
        ([(0, 80), (0, 80)], "s0 and s1 both hold samples 0 to 79"),
    ],
)
def test_samples_that_are_missing_or_held_twice_are_named(bounds, message):
    shards = [(f"s{number}", shard(*pair)) for number, pair in enumerate(bounds)]
    twice = "name each shard once, and only shards of one division, such as 1/2 and 2/2"
    with refused(UsageError, message, hint="name every shard" if message.startswith("no") else twice):
        merge_ranges(shards)


def test_what_is_no_shard_or_was_interrupted_is_refused():
    with pytest.raises(UsageError, match="a is no shard"):
        merge_ranges([("a", replace(shard(0, 80), part=None))])
    with refused(
        UsageError,
        "a comes from an interrupted calibration: 16 of its 64 samples are done",
        hint="run the same calibration again; it continues where it stopped",
    ):
        merge_ranges([("a", replace(shard(16, 80), part=RangesPart(16, 80, 32)))])
    with pytest.raises(UsageError, match="nothing to merge"):
        merge_ranges([])


def test_a_tensor_that_one_shard_could_not_read_has_no_range():
    blind = Ranges(RECORD, {KEY: UNSEEN}, {KEY: "its shape changes"}, RangesPart(32, 80, 80))
    merged = merge_ranges([("a", shard(0, 32)), ("b", blind)])
    assert merged.tensors == {KEY: UNSEEN}
    assert merged.unreadable == {KEY: "its shape changes"}


def test_only_what_could_not_be_read_is_listed_in_the_order_of_the_tensors():
    keys = [((), name) for name in "abc"]
    tensors = dict.fromkeys(keys, seen([1.0]))
    one = Ranges(RECORD, tensors, {keys[2]: "late"}, RangesPart(0, 32, 32))
    two = Ranges(RECORD, tensors, {keys[0]: "early"}, RangesPart(32, 80, 80))
    merged = merge_ranges([("one", one), ("two", two)])
    assert list(merged.unreadable.items()) == [(keys[0], "early"), (keys[2], "late")]
    assert merged.tensors == {keys[0]: UNSEEN, keys[1]: seen([1.0, 1.0]), keys[2]: UNSEEN}
    assert merged.part is None
    assert merged.record == RECORD


def test_messages_name_the_files_by_the_samples_that_they_hold():
    with refused(UsageError, "a and b cannot be merged: they differ in the data, 80 and 96 samples"):
        merge_ranges([("b", shard(32, 80, samples=96)), ("a", shard(0, 32))])


def test_parameters_may_come_in_any_order():
    one, two = {"b": 1, "a": 2}, {"a": 2, "b": 1}
    merged = merge_ranges([("a", shard(0, 32, parameters=one)), ("b", shard(32, 80, parameters=two))])
    assert merged.tensors == {KEY: seen([1.0, 1.0])}
