"""What the terminal says of the findings of ``validate``."""

from dataclasses import replace

from support.printed import ESCAPED, HOSTILE, printed

from qdqtool.linting import rules
from qdqtool.linting.findings import Finding
from qdqtool.linting.report import Ignored, ModelReport, Summary, TargetReport, ValidateReport, target_report
from qdqtool.reports.text.findings import SHOWN, render

FINDING = Finding(
    code="QP101",
    name="parameters.scale-value",
    severity="error",
    effect="refused",
    message="scale 's' is 0",
    node="n1",
    op_type="QuantizeLinear",
    graph="then",
    expected="> 0",
    context="Relu -> n1 -> Conv",
)
FIX = f"    fix: {rules.get('QP101').remedy}"


def judged(target: str, *findings: Finding, suppressed: int = 0, known: int = 0) -> TargetReport:
    return target_report(target, findings, checked=(f"rule for {target} only",), suppressed=suppressed, known=known)


def lines(
    *targets: TargetReport, error: str | None = None, path: str = "m.onnx", show_context: bool = False
) -> list[str]:
    report = ValidateReport((ModelReport(path, targets, error),), Summary())
    return printed(render, report, show_context=show_context).splitlines()


def test_a_finding_has_place_message_expectation_and_fix():
    assert lines(judged("onnx", FINDING))[:3] == [
        "m.onnx for onnx: fail",
        "  error QP101 [refused] then/n1 (QuantizeLinear): scale 's' is 0; expected > 0",
        FIX,
    ]


def test_a_command_in_the_fix_names_the_file_and_can_be_pasted():
    foreign = replace(FINDING, code="QT403")

    fix = lines(judged("onnx", foreign), path="some dir/m.onnx")[2]
    assert fix.startswith("    fix: `qdqtool normalize 'some dir/m.onnx' -o 'some dir/m.qdq.onnx'` writes most of them")
    assert ESCAPED in lines(judged("onnx", foreign), path=HOSTILE)[2]


def test_a_label_that_starts_with_the_operator_does_not_repeat_it():
    unnamed = replace(FINDING, node="QuantizeLinear -> q", graph="", expected=None)

    assert lines(judged("onnx", unnamed))[1] == "  error QP101 [refused] QuantizeLinear -> q: scale 's' is 0"


def test_a_finding_about_the_model_has_no_place():
    about_model = replace(FINDING, node=None, op_type=None, expected=None)

    assert lines(judged("onnx", about_model))[1] == "  error QP101 [refused] scale 's' is 0"


def test_the_neighbourhood_is_printed_on_request():
    assert "    graph: Relu -> n1 -> Conv" in lines(judged("onnx", FINDING), show_context=True)
    assert "    graph: Relu -> n1 -> Conv" not in lines(judged("onnx", FINDING))


def test_targets_with_the_same_findings_share_a_block():
    text = lines(judged("onnx", FINDING), judged("ort-cpu", FINDING), judged("tensorrt"))

    assert [line for line in text if line.startswith("m.onnx")] == [
        "m.onnx for onnx, ort-cpu: fail",
        "m.onnx for tensorrt: pass",
    ]


def test_findings_that_are_not_shown_are_counted():
    assert lines(judged("onnx", suppressed=2, known=1))[0] == "m.onnx for onnx: pass (2 suppressed, 1 in the baseline)"


def test_the_fix_of_a_rule_is_printed_once_and_long_lists_are_cut():
    text = lines(judged("onnx", *[FINDING] * (SHOWN + 2)))

    assert sum(" QP101 [refused]" in line for line in text) == SHOWN
    assert "  … and 2 more of QP101 (-v lists all)" in text
    assert text.count(FIX) == 1


def test_an_unreadable_model_has_its_reason():
    assert lines(error="no such file")[:2] == ["m.onnx: unreadable", "  no such file"]


def test_fixable_findings_lead_to_the_options():
    unsafe = replace(FINDING, fixable=True)
    safe = replace(unsafe, safe_fix=True)

    def advice(*findings: Finding) -> str:
        return lines(judged("onnx", *findings, FINDING))[-1]

    assert advice(safe, safe) == "2 can be fixed, up to 2 by safe edits: --fix -o FILE makes them; --diff shows them"
    assert advice(unsafe) == (
        "1 can be fixed, none by safe edits: --fix --unsafe-fixes -o FILE makes them; --diff shows them"
    )
    assert advice(safe, unsafe, unsafe) == (
        "3 can be fixed, up to 1 by safe edits: --fix -o FILE makes them, with --unsafe-fixes the others too; "
        "--diff shows them"
    )
    assert not any("--fix" in line for line in lines(judged("onnx", FINDING)))


def test_strings_of_the_model_are_escaped():
    hostile = replace(FINDING, node=HOSTILE, message=HOSTILE, expected=HOSTILE, context=HOSTILE)
    text = "\n".join(lines(judged("onnx", hostile), path=HOSTILE, error=HOSTILE, show_context=True))

    assert text.count("evil") == text.count(ESCAPED) == 7


def test_a_file_without_qdq_says_so():
    report = ValidateReport((ModelReport("m.onnx", (judged("onnx"),), qdq_nodes=0),), Summary())

    assert printed(render, report).splitlines() == [
        "m.onnx for onnx: pass (it has no Q/DQ nodes)",
        "1 model, 0 errors, 0 warnings, 0 infos, 1 without Q/DQ",
    ]


def test_ignored_rules_are_named_with_the_file_that_says_so():
    target = replace(judged("onnx"), ignored=(Ignored("QS002", 2), Ignored("QP101", 0)))
    report = ValidateReport((ModelReport("m.onnx", (target,), qdq_nodes=2),), Summary(ignored=2), "/p/qdqtool.toml")

    assert printed(render, report).splitlines() == [
        "m.onnx for onnx: pass (2 ignored: QS002)",
        "1 model, 0 errors, 0 warnings, 0 infos, 2 ignored (QS002)",
        "settings: /p/qdqtool.toml",
    ]


def test_targets_that_ignore_the_same_findings_stay_together():
    """The rules that are ignored differ by target, their findings do not."""
    targets = (replace(judged("onnx"), ignored=(Ignored("QT403", 0),)), judged("ort-cpu"))

    assert lines(*targets)[0] == "m.onnx for onnx, ort-cpu: pass"
