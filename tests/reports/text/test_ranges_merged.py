"""What the terminal says of merged ranges."""

from support.printed import ESCAPED, HOSTILE, printed

from qdqtool.jobs.merge import MergeReport
from qdqtool.reports.text.ranges import render_merged


def lines(unseen: int, output: str = "r.json") -> list[str]:
    report = MergeReport(output=output, shards=("a", "b"), method="max", samples=8, tensors=1, unseen=unseen)
    return printed(render_merged, report).splitlines()


def test_method_samples_and_shards_are_named():
    assert lines(0) == ["ranges of 1 tensor from 2 shards, calibrated with max over 8 samples", "wrote r.json"]


def test_tensors_that_no_shard_saw_are_counted():
    assert lines(2, HOSTILE)[1:] == ["UNSEEN   2 tensors took no value in any shard", f"wrote {ESCAPED}"]
