"""What the terminal says of a normalized model."""

from support.printed import ESCAPED, HOSTILE, printed

from qdqtool.repair.report import Change, NormalizeReport, Repaired
from qdqtool.report.text.normalize import render

CHANGE = Change(code="qlinear-conv", label="safe", description="to Q/DQ", node="n", graph="", proof="bit-equal")


def lines(name: str, data: str | None) -> list[str]:
    repaired = Repaired(changes=(CHANGE,))
    return printed(render, NormalizeReport(model=name, output=name, external_data=data, repaired=repaired)).splitlines()


def test_rewrites_and_files_are_listed():
    assert lines("m.onnx", None) == [
        "1 form rewritten in m.onnx",
        "  safe qlinear-conv n: to Q/DQ (bit-equal)",
        "wrote m.onnx",
    ]


def test_file_names_are_escaped():
    assert lines(HOSTILE, HOSTILE)[2:] == [f"wrote {ESCAPED}", f"weights in {ESCAPED}"]
    assert lines(HOSTILE, None)[0] == f"1 form rewritten in {ESCAPED}"
