"""What the terminal says of a normalized model."""

import pytest
from support.printed import ESCAPED, HOSTILE, printed

from qdqtool.linting.repair.report import Change, NormalizeReport, RefusedFix, Repaired
from qdqtool.reports.text.repaired import render_normalized

CHANGE = Change(code="qlinear-conv", label="safe", description="to Q/DQ", node="n", graph="", proof="bit-equal")


def lines(name: str, data: str | None) -> list[str]:
    repaired = Repaired(changes=(CHANGE,))
    return printed(
        render_normalized, NormalizeReport(model=name, output=name, external_data=data, repaired=repaired)
    ).splitlines()


def test_rewrites_and_files_are_listed():
    assert lines("m.onnx", None) == [
        "1 form rewritten in m.onnx",
        "  safe qlinear-conv n: to Q/DQ (bit-equal)",
        "wrote m.onnx",
    ]


def test_file_names_are_escaped():
    assert lines(HOSTILE, HOSTILE)[2:] == [f"wrote {ESCAPED}", f"weights in {ESCAPED}"]
    assert lines(HOSTILE, None)[0] == f"1 form rewritten in {ESCAPED}"


@pytest.mark.parametrize("existing", ["keep", "replace"])
def test_data_that_is_float_now_is_named_with_the_command_that_quantizes_it(existing: str):
    change = Change(code="dynamic-product", label="unsafe", description="to MatMul", node="n", graph="", proof="change")
    left = RefusedFix(code="signed-codes", label="safe", description="int8", node="n", graph="", reason="127")
    repaired = Repaired(changes=(change,), refused=(left,) if existing == "replace" else ())
    report = NormalizeReport(model="m", output="an out.onnx", external_data=None, repaired=repaired)
    assert printed(render_normalized, report).splitlines()[-1] == (
        "data that was quantized at run time is float now; "
        f"`qdqtool quantize 'an out.onnx' --existing {existing} --calib-data DATA -o OUT.onnx` gives it static pairs"
    )
