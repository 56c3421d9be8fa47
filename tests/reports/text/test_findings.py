"""What the terminal says of the findings of ``validate``, its settings and its statistics."""

import tomllib
from dataclasses import replace
from pathlib import Path

from support.printed import ESCAPED, HOSTILE, cells, printed

from qdqtool.linting import rules
from qdqtool.linting.findings import Finding
from qdqtool.linting.policy import Policy
from qdqtool.linting.report import (
    REPEATED,
    Ignored,
    ModelReport,
    RuleCount,
    Statistics,
    Summary,
    TargetReport,
    ValidateReport,
    target_report,
)
from qdqtool.linting.settings import Settings
from qdqtool.reports.text.findings import EXAMPLES, render, render_settings, render_statistics

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
FIX = f"    fix by hand: {rules.get('QP101').remedy}"


def judged(target: str, *findings: Finding, suppressed: int = 0, known: int = 0) -> TargetReport:
    return target_report(target, findings, checked=(f"rule for {target} only",), suppressed=suppressed, known=known)


def lines(
    *targets: TargetReport, error: str | None = None, path: str = "m.onnx", show_context: bool = False
) -> list[str]:
    report = ValidateReport((ModelReport(path, targets, error),), Summary())
    return printed(render, report, show_context=show_context).splitlines()


def test_a_command_in_the_fix_names_the_file_and_can_be_pasted():
    foreign = replace(FINDING, code="QT403")
    fix = lines(judged("onnx", foreign), path="some dir/m.onnx")[2]
    assert fix.startswith(
        "    fix by hand: `qdqtool normalize 'some dir/m.onnx' -o 'some dir/m.qdq.onnx'` rewrites most of them"
    )
    assert ESCAPED in lines(judged("onnx", foreign), path=HOSTILE)[2]


def test_a_label_that_starts_with_the_operator_does_not_repeat_it():
    unnamed = replace(FINDING, node="QuantizeLinear -> q", graph="", expected=None)
    assert lines(judged("onnx", unnamed))[1] == "  error QP101 [refused] QuantizeLinear -> q: scale 's' is 0"


def test_a_finding_about_the_model_has_no_place():
    about_model = replace(FINDING, node=None, op_type=None, expected=None)
    assert lines(judged("onnx", about_model))[1] == "  error QP101 [refused] scale 's' is 0"


def test_the_fix_of_a_rule_is_printed_once_and_what_repeats_is_counted():
    text = lines(judged("onnx", *[FINDING] * (REPEATED + 2)))
    assert sum(" QP101 [refused]" in line for line in text) == EXAMPLES
    assert f"  … and {REPEATED + 2 - EXAMPLES} more of QP101 (-v lists all)" in text
    assert text.count(FIX) == 1
    few = lines(judged("onnx", *[FINDING] * REPEATED))
    assert sum(" QP101 [refused]" in line for line in few) == REPEATED


def test_findings_that_repeat_get_a_diagnosis_with_commands():
    asymmetric = replace(FINDING, code="QP102", cause="asymmetric activations", fixable=True)
    bias = replace(FINDING, code="QL301", op_type="DequantizeLinear", cause="biases stored as codes", fixable=True)
    many = [replace(asymmetric, op_type=op) for op in ("QuantizeLinear", "DequantizeLinear") for _ in range(REPEATED)]
    target = judged("tensorrt-rtx", *many, *[replace(bias, safe_fix=True)] * (REPEATED + 1), FINDING)
    report = ValidateReport((ModelReport("a b.onnx", (target,), per_tensor_weights=3),), Summary())

    assert printed(render, report).splitlines()[1:7] == [
        "  31 of 32 findings repeat 2 causes:",
        "    10 x asymmetric activations: 20 errors QP102",
        "    11 x biases stored as codes: 11 errors QL301; a safe edit for all",
        "    also 3 weights with one scale for all channels: one scale for each channel is more accurate",
        (
            "  shortest way: quantize the float model again: `qdqtool quantize FLOAT.onnx --target tensorrt-rtx "
            "--calib-data DATA -o 'a b.new.onnx'`"
        ),
        (
            "  without the float model: `qdqtool quantize 'a b.onnx' --existing replace --target tensorrt-rtx "
            "--calib-data DATA -o 'a b.new.onnx'`; its weights stay rounded"
        ),
    ]
    assert not any("shortest way" in line for line in lines(judged("tensorrt", *many[:REPEATED])))


def test_where_safe_edits_reach_every_error_they_are_the_shortest_way_until_they_were_tried():
    bias = replace(FINDING, code="QL301", cause="biases stored as codes", fixable=True, safe_fix=True)
    report = ValidateReport((ModelReport("m.onnx", (judged("tensorrt", *[bias] * (REPEATED + 1)),)),), Summary())

    first, tried = printed(render, report), printed(render, report, names_fixes=False)
    assert "shortest way: `qdqtool validate m.onnx --fix -o m.fixed.onnx`" in first
    assert "qdqtool quantize" not in first
    assert "--fix" not in tried
    assert "safe edit" not in tried
    assert "shortest way: quantize the float model again" in tried


def test_another_quantized_form_is_not_quantized_again_in_place():
    foreign = replace(FINDING, code="QT403", cause="operators of another quantized form")
    text = "\n".join(lines(judged("tensorrt", *[foreign] * (REPEATED + 1))))
    assert "11 errors QT403; no automatic fix" in text
    assert "--existing replace" not in text
    assert "qdqtool normalize m.onnx" in text


def test_fixable_findings_lead_to_the_options():
    unsafe = replace(FINDING, fixable=True)
    safe = replace(unsafe, safe_fix=True)

    def advice(*findings: Finding) -> str:
        apart = [replace(each, message=f"{number}") for number, each in enumerate(findings)]
        return lines(judged("onnx", *apart))[-1]

    assert advice(safe, safe) == "to fix: 2 by safe edits (--fix -o FILE); --diff shows the edits"
    assert advice(unsafe, FINDING) == (
        "to fix: 1 by edits that change numbers (--fix --unsafe-fixes -o FILE), 1 by hand; --diff shows the edits"
    )
    assert advice(safe, unsafe, unsafe) == (
        "to fix: 1 by safe edits (--fix -o FILE), 2 by edits that change numbers (--fix --unsafe-fixes -o FILE); "
        "--diff shows the edits"
    )
    assert not any("--fix" in line for line in lines(judged("onnx", FINDING)))
    assert lines(judged("onnx", unsafe))[-4] == f"    fix: {rules.get('QP101').remedy}"


def test_one_edit_mends_what_two_targets_report():
    safe = replace(FINDING, fixable=True, safe_fix=True)
    text = lines(judged("onnx", safe), judged("ort-cpu", safe, replace(FINDING, message="2")))
    assert text[-1] == "to fix: 1 by safe edits (--fix -o FILE), 1 by hand; --diff shows the edits"


def test_one_output_file_is_not_advised_for_two_models():
    models = tuple(ModelReport(name, (judged("onnx", replace(FINDING, fixable=True)),)) for name in "ab")
    text = printed(render, ValidateReport(models, Summary()))
    assert "(--fix --unsafe-fixes --in-place)" in text
    assert "-o FILE" not in text


def test_strings_of_the_model_are_escaped():
    hostile = replace(FINDING, node=HOSTILE, message=HOSTILE, expected=HOSTILE, context=HOSTILE)
    text = "\n".join(lines(judged("onnx", hostile), path=HOSTILE, error=HOSTILE, show_context=True))
    assert text.count("evil") == text.count(ESCAPED) == 7


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


def test_the_output_is_a_settings_file():
    policy = Policy(
        targets=("onnx",),
        compute_capabilities=(89,),
        select=("QP",),
        extend_select=("QS",),
        ignore=("QL",),
        parser=True,
        severity={"QP101": "info"},
        per_model_ignores={"a*.onnx": ("QP",)},
        per_node_ignores={HOSTILE: ("QS001",)},
    )
    text = printed(
        render_settings, Settings(source=Path("q.toml"), fail_on="never", baseline=Path("b.json"), policy=policy)
    )
    found = tomllib.loads(text)

    assert text.startswith("# q.toml\n")
    assert (found["targets"], found["sm"], found["select"]) == (["onnx"], ["8.9"], ["QP"])
    assert (found["fail-on"], found["baseline"]) == ("never", "b.json")
    assert (found["extend-select"], found["ignore"]) == (["QS"], ["QL"])
    assert found["parser"] is True
    assert found["severity"] == {"QP101": "info"}
    assert found["per-model-ignores"] == {"a*.onnx": ["QP"]}
    assert found["per-node-ignores"] == {HOSTILE: ["QS001"]}
    assert "\x1b" not in text


SUM = "1 error, 2 warnings, 3 infos, 4 suppressed, 5 in the baseline, 6 ignored"


def test_each_rule_has_a_row_before_the_sum():
    rows = (RuleCount("QP101", "a.b", "error", 3, 2), RuleCount("QS001", "c.d", "info", 1, 0))
    table = cells(printed(render_statistics, Statistics(rows, Summary(1, 2, 3, 4, 5, 6))))
    assert table[1:] == [["3", "QP101", "a.b", "error", "2"], ["1", "QS001", "c.d", "info"], [SUM]]


def test_without_findings_there_is_only_the_sum():
    assert printed(render_statistics, Statistics((), Summary(1, 2, 3, 4, 5, 6))) == f"{SUM}\n"
