"""Shards: how they are written, and what they hold."""

import pytest
from support.refusals import refused

from qdqtool.errors import ArgumentError, UsageError
from qdqtool.quantization.ranges.shard import Shard, parse_shard
from qdqtool.quantization.ranges.types import RangesPart


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
