"""The layers that make most of the noise, in text."""

from dataclasses import replace

from support.printed import ESCAPED, HOSTILE, printed

from qdqtool.accuracy.report import BlamedLayer, BlameReport
from qdqtool.reports.text.sensitivity import print_blame

LAYER = BlamedLayer(
    node="conv",
    op_type="Conv",
    graph="",
    nodes=("conv",),
    noise_share=0.32,
    alone_db=24.26,
    without_db=None,
    dominant=False,
    macs_share=0.2,
    weights_share=0.3,
    exclude=("conv",),
)


def report(*layers: BlamedLayer, rest: float = 0.2) -> BlameReport:
    return BlameReport(output="y", whole_db=21.31, samples=1, runs=9, layers=layers, rest_share=rest)


def test_each_layer_has_a_line_and_all_have_one_hint():
    second = replace(LAYER, node=HOSTILE, nodes=(HOSTILE, "add"), exclude=("a b", "add"), noise_share=0.2, graph="then")
    assert printed(print_blame, report(LAYER, second)).splitlines() == [
        "layers that make most of the noise at y, on 1 sample",
        *printed(print_blame, report(LAYER, second)).splitlines()[1:4],
        "to leave them in float: `--nodes-to-exclude conv --nodes-to-exclude 'a b' --nodes-to-exclude add`",
    ]
    lines = printed(print_blame, report(LAYER, second)).splitlines()[1:4]
    assert lines[0].split() == ["layer", "operator", "noise", "alone", "dB"]
    assert lines[1].split() == ["conv", "Conv", "32.0%", "24.3"]
    assert f"{ESCAPED} (+1) in then" in lines[2]


def test_a_layer_louder_than_all_others_has_a_line_of_its_own():
    loud = replace(LAYER, noise_share=0.9, dominant=True, without_db=40.04, macs_share=0.0041, weights_share=0.00002)
    costs = "y has 21.3 dB with it quantized and 40.0 dB with it in float; it has "
    costs += "0.41% of the multiply-accumulates and 0.00% of the weights"
    lines = printed(print_blame, report(loud)).splitlines()
    assert lines[-2:] == [
        f"conv makes more noise than all other layers together: {costs}",
        "to leave it in float: `--nodes-to-exclude conv`",
    ]
    silent = printed(print_blame, report(replace(loud, without_db=None)))
    assert "and no noise with it in float" in silent


def test_another_layer_that_may_be_louder_is_not_kept_quiet():
    line = "of the other layers none makes more than 40% (9 runs of a sample)"
    assert line in printed(print_blame, report(LAYER, rest=0.4)).splitlines()
    assert "of the other layers" not in printed(print_blame, report(LAYER, rest=0.3))


def test_where_no_layer_stands_out_one_line_says_so():
    even = "no layer stands out: none makes more than 20% of the noise at y\n"
    assert printed(print_blame, report()) == even
    unknown = "no layer was found that makes most of the noise at y within 9 runs of a sample\n"
    assert printed(print_blame, report(rest=0.6)) == unknown


def test_a_problem_is_said_and_escaped():
    assert printed(print_blame, BlameReport(problem=HOSTILE)) == f"layers NOT measured: {ESCAPED}\n"
