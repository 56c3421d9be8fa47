"""What the terminal says of the nodes that stay float."""

from support.printed import ESCAPED, HOSTILE, printed

from qdqtool.models.graph.report import NodeReason
from qdqtool.quantization.report import HighPrecisionReport
from qdqtool.reports.text._shared import print_high_precision


def kept(node: str, reason: str) -> NodeReason:
    return NodeReason(node=node, op_type="Exp", graph="", reason=reason)


def lines(report: HighPrecisionReport | None) -> list[str]:
    return printed(print_high_precision, report).splitlines()


def test_nothing_is_printed_where_it_was_not_asked_for():
    assert lines(None) == []


def test_a_conversion_without_effect_names_the_option_and_the_reason():
    report = HighPrecisionReport(dtype="fp16", note="the model is float16 already")

    assert lines(report) == ["note     --high-precision-dtype fp16 changed nothing: the model is float16 already"]


def test_nodes_that_stay_float32_are_grouped_by_reason():
    nodes = (kept("b", "too large"), kept("a", "no float16 kernel"), kept(HOSTILE, "too large"))

    assert lines(HighPrecisionReport(dtype="fp16", nodes=5, kept=nodes, casts=1, measured=9)) == [
        "5 of 8 float nodes in float16, 1 Cast added",
        "  float32 Exp a: no float16 kernel",
        f"  float32 Exp b, Exp {ESCAPED}: too large",
    ]


def test_many_nodes_of_one_reason_are_counted():
    nodes = tuple(kept(name, "too large") for name in "abcde")
    *_, last = lines(HighPrecisionReport(dtype="fp16", kept=nodes, measured=1))

    assert last == "  float32 Exp a, Exp b, Exp c, Exp d, … (5 in all): too large"


def test_without_data_the_unknown_range_is_said():
    assert "note     without data nothing is known of how large activations become" in lines(
        HighPrecisionReport(dtype="fp16", nodes=1)
    )
