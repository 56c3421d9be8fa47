"""What the terminal says of preparation, given ranges, pairs, nodes left in float and files."""

from dataclasses import replace

from support.printed import ESCAPED, HOSTILE, printed

from qdqtool.models.graph.report import NodeReason, Sizes
from qdqtool.quantization.calibration_report import MethodTrial, PreparationReport, Site, Trial, TrialOutput
from qdqtool.quantization.report import GivenReport, HighPrecisionReport, QuantizedTensor
from qdqtool.reports.text._shared import (
    print_chosen,
    print_counts,
    print_files,
    print_given,
    print_high_precision,
    print_opset,
    print_pairs,
    print_preparation,
)

SITES = (Site(name="a", graph="", note=""), Site(name="b", graph="", note=""))
FOLDED = PreparationReport(step="batchnorm", applied=True, sites=SITES, max_difference=1.25e-7, limit=0.001)
TRIAL = Trial(
    samples=4,
    kept=True,
    outputs=(
        TrialOutput(name="y", without_db=20.0, with_db=25.0),
        TrialOutput(name="z", without_db=30.0, with_db=31.5),
        TrialOutput(name="constant", without_db=None, with_db=None),
    ),
)
LEAST = "measured SQNR 30.0 dB without, 31.5 dB with at 'z', the smallest gain of 2 outputs (4 samples)"
GIVEN = GivenReport(source="r.json", format="json", mode="int8", tensors=3, unknown=(), notes=())


def prepared(report: PreparationReport) -> str:
    return printed(print_preparation, [report])


def test_an_applied_step_says_how_far_outputs_moved():
    seen = "outputs and inner tensors differ by 1.2e-07 at most, limit 0.001"
    assert prepared(FOLDED) == f"2 BatchNormalizations folded: {seen}\n"
    assert prepared(replace(FOLDED, trial=TRIAL)) == f"2 BatchNormalizations folded: {seen}; {LEAST}\n"


def test_a_step_over_the_limit_is_not_applied():
    text = prepared(replace(FOLDED, applied=False, max_difference=0.5))
    assert (
        text == "2 BatchNormalizations NOT folded: outputs and inner tensors differ by 0.5 at most, more than 0.001\n"
    )


def test_a_step_of_a_ranges_file_is_attributed_to_it():
    assert prepared(replace(FOLDED, max_difference=None)) == "2 BatchNormalizations folded, as the ranges file says\n"


def test_a_rejected_step_is_reported_with_or_without_sites():
    rejected = replace(FOLDED, trial=replace(TRIAL, kept=False))
    assert prepared(rejected) == f"2 BatchNormalizations not folded: {LEAST}\n"
    assert prepared(replace(rejected, sites=())) == f"no BatchNormalization folded, as the ranges file says: {LEAST}\n"


def test_a_rejected_step_says_how_much_its_gain_varies():
    measured = replace(TRIAL, sample_gain_db=2.53, gain_error_db=3.28)

    assert prepared(replace(FOLDED, trial=measured)).endswith(f"; {LEAST}\n")
    rejected = replace(FOLDED, trial=replace(measured, kept=False))
    assert prepared(rejected).endswith(f" not folded: {LEAST}; gain for a sample +2.5 ± 3.3 dB\n")
    rejected = replace(FOLDED, trial=replace(measured, kept=False, sample_gain_db=-0.04))
    assert prepared(rejected).endswith("; gain for a sample -0.0 ± 3.3 dB\n")


def test_a_trial_that_shows_nothing_says_why():
    unmeasured = Trial(samples=4, kept=False, problem=HOSTILE)
    unchanged = Trial(samples=4, kept=False, outputs=TRIAL.outputs[2:])
    assert prepared(replace(FOLDED, trial=unmeasured)).endswith(f"not folded: not measured: {ESCAPED}\n")
    assert prepared(replace(FOLDED, trial=unchanged)).endswith("not folded: no output changes\n")


def test_given_ranges_say_where_they_come_from():
    assert printed(print_given, GIVEN) == "ranges of 3 tensors from r.json (json, int8)\n"


def test_what_given_ranges_name_in_vain_is_shown_in_part_and_counted():
    given = replace(GIVEN, weights=1, unknown=(HOSTILE, "b", "c", "d", "e"), notes=(HOSTILE,))
    assert printed(print_given, given).splitlines()[1:] == [
        "scales of 1 weight are taken from the file",
        f"note     5 tensors of the file not found in the model: {ESCAPED}, b, c, d, …",
        f"note     {ESCAPED}",
    ]


TRIED = MethodTrial(method="entropy", samples=16, gains_db={"auto": 0.0, "entropy": 2.36}, errors_db={"entropy": 0.52})


def test_a_chosen_method_is_told_with_its_gain():
    told = "outputs keep 2.4 ± 0.5 dB more than with a method for each tensor (16 samples)"
    assert printed(print_chosen, "entropy", TRIED) == f"scales by entropy: {told}\n"


def test_a_choice_of_a_ranges_file_is_attributed_to_it():
    assert printed(print_chosen, "entropy", None) == "scales by entropy, as the ranges file says\n"
    assert printed(print_chosen, HOSTILE, None) == f"scales by {ESCAPED}, as the ranges file says\n"


def test_nothing_is_said_where_each_tensor_is_judged_by_itself():
    assert printed(print_chosen, "auto", TRIED) == ""
    assert printed(print_chosen, "", None) == ""


def pair(tensor: str, kind: str = "activation", graph: str = "", scales: int = 1) -> QuantizedTensor:
    return QuantizedTensor(
        tensor=tensor,
        graph=graph,
        kind=kind,
        format="int8",
        granularity="per-tensor" if scales == 1 else "per-axis 0",
        scales=scales,
        scale_min=0.0123456,
        scale_max=0.5,
        consumers=(),
        reason="",
    )


def test_pairs_are_listed_with_their_scales_where_that_was_asked_for():
    pairs = [pair("x"), pair(HOSTILE, graph="then"), pair("w", "weight", scales=8)] + [pair("y")] * 60

    assert printed(print_pairs, pairs) == ""
    assert printed(print_pairs, pairs, verbose=True).splitlines()[:3] == [
        "  activation x: int8 per-tensor, scale 0.01235",
        f"  activation {ESCAPED} in then: int8 per-tensor, scale 0.01235",
        "  weight     w: int8 per-axis 0, 8 scales 0.01235 to 0.5",
    ]
    assert len(printed(print_pairs, pairs, verbose=True).splitlines()) == 63
    assert printed(print_counts, pairs, "m", verbose=True) == "63 quantized tensors (62 activations, 1 weight) in m\n"


def test_the_opset_is_mentioned_only_where_it_was_raised():
    assert printed(print_opset, 13, 21) == "opset raised from 13 to 21, as the formats need\n"
    assert printed(print_opset, 21, 21) == ""


def test_files_are_named_with_their_sizes():
    sizes = Sizes(before=4000, after=1000)
    assert printed(print_files, "q.onnx", None, sizes) == "size 4 kB -> 1 kB (25%)\nwrote q.onnx\n"
    assert printed(print_files, HOSTILE, HOSTILE, sizes).endswith(f"wrote {ESCAPED}\nweights in {ESCAPED}\n")


def kept_node(node: str, reason: str) -> NodeReason:
    return NodeReason(node=node, op_type="Exp", graph="", reason=reason)


def high_precision(report: HighPrecisionReport | None) -> list[str]:
    return printed(print_high_precision, report).splitlines()


def test_nothing_is_printed_where_it_was_not_asked_for():
    assert high_precision(None) == []


def test_a_conversion_without_effect_names_the_option_and_the_reason():
    report = HighPrecisionReport(dtype="fp16", note="the model is float16 already")
    assert high_precision(report) == [
        "note     --high-precision-dtype fp16 changed nothing: the model is float16 already"
    ]


def test_nodes_that_stay_float32_are_grouped_by_reason():
    nodes = (kept_node("b", "too large"), kept_node("a", "no float16 kernel"), kept_node(HOSTILE, "too large"))
    assert high_precision(HighPrecisionReport(dtype="fp16", nodes=5, kept=nodes, casts=1, measured=9)) == [
        "5 of 8 float nodes in float16, 1 Cast added",
        "  float32 Exp a: no float16 kernel",
        f"  float32 Exp b, Exp {ESCAPED}: too large",
    ]


def test_many_nodes_of_one_reason_are_counted():
    nodes = tuple(kept_node(name, "too large") for name in "abcde")
    *_, last = high_precision(HighPrecisionReport(dtype="fp16", kept=nodes, measured=1))
    assert last == "  float32 Exp a, Exp b, Exp c, Exp d, … (5 in all): too large"


def test_without_data_the_unknown_range_is_said():
    assert "note     without data, the largest values of activations are unknown" in high_precision(
        HighPrecisionReport(dtype="fp16", nodes=1)
    )
