"""What the terminal says of converted and merged ranges."""

from dataclasses import replace

from support.printed import ESCAPED, HOSTILE, printed

from qdqtool.jobs.convert_ranges import ConvertReport
from qdqtool.jobs.merge import MergeReport
from qdqtool.reports.text.ranges import render_converted, render_merged

REPORT = ConvertReport(
    source="r.npz",
    read_as="qdqtool",
    output="t.cache",
    written_as="tensorrt-cache",
    method="entropy",
    tensors=1,
    unseen=(),
)


def converted(**changes: object) -> list[str]:
    return printed(render_converted, replace(REPORT, **changes)).splitlines()


def test_what_is_left_out_is_named_and_escaped():
    assert converted(source=HOSTILE, unseen=(HOSTILE,), notes=(HOSTILE,), output=HOSTILE) == [
        f"ranges of 1 tensor from {ESCAPED} (qdqtool, thresholds by entropy)",
        f"left out {ESCAPED}: it has no range",
        f"note     {ESCAPED}",
        f"tensorrt-cache written to {ESCAPED}",
    ]


def merged(unseen: int, output: str = "r.json") -> list[str]:
    report = MergeReport(output=output, shards=("a", "b"), method="max", samples=8, tensors=1, unseen=unseen)
    return printed(render_merged, report).splitlines()


def test_tensors_that_no_shard_saw_are_counted():
    assert merged(2, HOSTILE)[1:] == ["UNSEEN   2 tensors took no value in any shard", f"wrote {ESCAPED}"]
