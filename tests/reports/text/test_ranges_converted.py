"""What the terminal says of converted ranges."""

from dataclasses import replace

from support.printed import ESCAPED, HOSTILE, printed

from qdqtool.jobs.convert_ranges import ConvertReport
from qdqtool.reports.text.ranges import render_converted

REPORT = ConvertReport(
    source="r.npz",
    read_as="qdqtool",
    output="t.cache",
    written_as="tensorrt-cache",
    method="entropy",
    tensors=1,
    unseen=(),
)


def lines(**changes: object) -> list[str]:
    return printed(render_converted, replace(REPORT, **changes)).splitlines()


def test_both_files_and_formats_are_named():
    assert lines() == [
        "ranges of 1 tensor from r.npz (qdqtool, thresholds by entropy)",
        "tensorrt-cache written to t.cache",
    ]
    assert lines(method=None)[0] == "ranges of 1 tensor from r.npz (qdqtool)"


def test_what_is_left_out_is_named_and_escaped():
    assert lines(source=HOSTILE, unseen=(HOSTILE,), notes=(HOSTILE,), output=HOSTILE) == [
        f"ranges of 1 tensor from {ESCAPED} (qdqtool, thresholds by entropy)",
        f"left out {ESCAPED}: it has no range",
        f"note     {ESCAPED}",
        f"tensorrt-cache written to {ESCAPED}",
    ]
