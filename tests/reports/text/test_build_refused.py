"""What the terminal says of a refused build."""

from support.printed import ESCAPED, HOSTILE, printed

from qdqtool.engines.build.report import RefusedReport
from qdqtool.engines.report import Refusal, Stage
from qdqtool.reports.text.build import render_refused


def lines(*refusals: Refusal, stage: Stage = "parse") -> list[str]:
    report = RefusedReport(
        model=HOSTILE, engine=None, passed=False, stage=stage, message="", refusals=refusals, remark="", hint=None
    )
    return printed(render_refused, report).splitlines()


def test_several_refusals_are_listed():
    first = Refusal(reason="axis is 1", node="q", op_type="QuantizeLinear", hint="use axis 0", code="QP101")
    second = Refusal(reason=HOSTILE, node=HOSTILE)

    assert lines(first, second, Refusal(reason="too large")) == [
        f"{ESCAPED}: the parser refuses",
        "  QP101 q (QuantizeLinear): axis is 1; use axis 0",
        f"  {ESCAPED} (?): {ESCAPED}",
        "  too large",
    ]


def test_the_head_names_the_stage():
    twice = (Refusal(reason="a"), Refusal(reason="b"))

    assert lines(*twice, stage="validate")[0].endswith(": the validate gate refuses")
    assert lines(*twice, stage="build")[0].endswith(": the builder refuses")


def test_a_single_refusal_is_left_to_the_error_message():
    assert lines(Refusal(reason="axis is 1")) == []
