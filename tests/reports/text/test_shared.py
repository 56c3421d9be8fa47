"""What the terminal says of preparation, given ranges and skipped nodes."""

from dataclasses import replace

from support.printed import ESCAPED, HOSTILE, printed

from qdqtool.models.graph.report import NodeReason
from qdqtool.quantization.calibration_report import MethodTrial, PreparationReport, Site, Trial, TrialOutput
from qdqtool.quantization.report import GivenReport
from qdqtool.reports.text._shared import print_chosen, print_given, print_preparation, print_skipped

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
LEAST = "measured SQNR 30.0 dB without, 31.5 dB with, the least of 2 outputs (4 samples)"
GIVEN = GivenReport(source="r.json", format="json", mode="int8", tensors=3, unknown=(), notes=())


def prepared(report: PreparationReport) -> str:
    return printed(print_preparation, [report])


def skipped(*nodes: NodeReason) -> list[str]:
    return printed(print_skipped, nodes).splitlines()


def left(node: str, reason: str = "no range", graph: str = "") -> NodeReason:
    return NodeReason(node=node, op_type="Conv", graph=graph, reason=reason)


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


def test_a_step_without_sites_prints_nothing():
    assert prepared(replace(FOLDED, sites=())) == ""


def test_a_rejected_step_is_reported_with_or_without_sites():
    rejected = replace(FOLDED, trial=replace(TRIAL, kept=False))

    assert prepared(rejected) == f"2 BatchNormalizations left, not folded: {LEAST}\n"
    assert prepared(replace(rejected, sites=())) == f"BatchNormalizations left, not folded: {LEAST}\n"


def test_a_rejected_step_says_how_much_its_gain_varies():
    measured = replace(TRIAL, sample_gain_db=2.53, gain_error_db=3.28)

    assert prepared(replace(FOLDED, trial=measured)).endswith(f"; {LEAST}\n")
    rejected = replace(FOLDED, trial=replace(measured, kept=False))
    assert prepared(rejected).endswith(f" left, not folded: {LEAST}, +2.5 ± 3.3 dB for a sample\n")
    rejected = replace(FOLDED, trial=replace(measured, kept=False, sample_gain_db=-0.04))
    assert prepared(rejected).endswith(", -0.0 ± 3.3 dB for a sample\n")


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
        "scales of 1 weight are those of the file",
        f"note     5 tensors of the file not found in the model: {ESCAPED}, b, c, d, …",
        f"note     {ESCAPED}",
    ]


def test_nodes_that_are_quantized_already_are_not_counted_as_float():
    already = "it is quantized already"

    assert skipped(left("a", already), left("b", already), left("c", "no range")) == [
        "2 nodes quantized already, 1 node unquantized",
        "  Conv a, b: it is quantized already",
        "  Conv c: no range",
    ]
    assert skipped(left("a", already))[0] == "1 node quantized already"


def test_skipped_nodes_with_the_same_reason_share_a_line():
    assert skipped(left("a"), left("c", "no weight"), left("b", graph="then")) == [
        "3 nodes unquantized",
        "  Conv a, then/b: no range",
        "  Conv c: no weight",
    ]


def test_many_skipped_nodes_are_counted():
    assert skipped(*(left(name) for name in "abcde"))[1] == "  Conv a, b, c, d, … (5 in all): no range"


def test_no_skipped_node_prints_nothing():
    assert skipped() == []


def test_names_of_skipped_nodes_are_escaped():
    assert skipped(left(HOSTILE, HOSTILE))[1] == f"  Conv {ESCAPED}: {ESCAPED}"


TRIED = MethodTrial(method="entropy", samples=16, gains_db={"auto": 0.0, "entropy": 2.36}, errors_db={"entropy": 0.52})


def test_a_chosen_method_is_told_with_its_gain():
    told = "outputs keep 2.4 ± 0.5 dB more than where each tensor is judged by itself (16 samples)"

    assert printed(print_chosen, "entropy", TRIED) == f"scales by entropy: {told}\n"


def test_a_choice_of_a_ranges_file_is_attributed_to_it():
    assert printed(print_chosen, "entropy", None) == "scales by entropy, as the ranges file says\n"
    assert printed(print_chosen, HOSTILE, None) == f"scales by {ESCAPED}, as the ranges file says\n"


def test_nothing_is_said_where_each_tensor_is_judged_by_itself():
    assert printed(print_chosen, "auto", TRIED) == ""
    assert printed(print_chosen, "", None) == ""
