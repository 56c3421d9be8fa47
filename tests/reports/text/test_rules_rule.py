"""What the terminal says of one rule."""

from support.printed import printed

from qdqtool.jobs.catalogue import FixCard, RuleCard, TargetImpact
from qdqtool.jobs.rule_examples import ExampleCard, ExampleFinding, ExampleFix
from qdqtool.reports.text.rules import render_rule

CARD = RuleCard(
    code="QX001",
    name="group.name",
    summary="A summary.",
    why="numbers are wrong",
    bad="scale = 0",
    good="scale = 1",
    remedy="use 1",
    fixes=(FixCard("safe", "writes 1"),),
    since="1.2",
    impacts=(TargetImpact("onnx", "error", "refused"),),
    invalid=(
        ExampleCard(
            "zero",
            "line 1\n[red]",
            ("onnx", "ort-cpu"),
            (ExampleFinding(("onnx",), "error", "refused", "q: scale is 0"),),
            ExampleFix("safe", ("writes 1", "drops 0"), "line 3\nline 4"),
        ),
    ),
    valid=(ExampleCard("one", "fine", ()),),
)


def test_a_card_is_printed_in_full():
    assert printed(render_rule, CARD).splitlines() == [
        "QX001 group.name (since 1.2)",
        "A summary.",
        "",
        "Why: numbers are wrong",
        "Bad: scale = 0",
        "Good: scale = 1",
        "Fix: use 1",
        "--fix (safe): writes 1",
        "",
        "  onnx: error, refused",
        "",
        "reported: zero (for onnx, ort-cpu)",
        "    line 1",
        "    [red]",
        "  says: error [refused] q: scale is 0 (onnx)",
        "  fixed (safe: writes 1, drops 0):",
        "    line 3",
        "    line 4",
        "",
        "passed: one",
        "    fine",
    ]
