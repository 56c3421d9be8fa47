"""What the terminal says of the layers, tensors and samples that make the noise."""

from dataclasses import replace

import numpy as np
import pytest
from support.accuracy_parts import BLAMED, BOUNDARY
from support.metrics import sqnr_db
from support.printed import ESCAPED, HOSTILE, cells, printed

from qdqtool.accuracy.checking.report import OutputResult
from qdqtool.accuracy.report import BlamedLayer, BlameReport, SampleDistribution, WorstSample
from qdqtool.quantization.report import TensorAccuracy
from qdqtool.reports.text.sensitivity import (
    SHOWN_TENSORS,
    print_blame,
    print_noisiest,
    print_pair_errors,
    print_worst_sample,
    relative_noise,
)


def report(*layers: BlamedLayer, rest: float = 0.2) -> BlameReport:
    return BlameReport(output="y", whole_db=21.31, samples=1, runs=9, layers=layers, rest_share=rest)


def test_each_layer_has_a_line_and_all_have_one_hint():
    second = replace(
        BLAMED, node=HOSTILE, nodes=(HOSTILE, "add"), exclude=("a b", "add"), noise_share=0.2, graph="then"
    )
    assert printed(print_blame, report(BLAMED, second)).splitlines() == [
        "layers that make most of the noise at y, on 1 sample",
        *printed(print_blame, report(BLAMED, second)).splitlines()[1:4],
        "to leave them in float: `--nodes-to-exclude conv --nodes-to-exclude 'a b' --nodes-to-exclude add`",
    ]
    lines = printed(print_blame, report(BLAMED, second)).splitlines()[1:4]
    assert lines[0].split() == ["layer", "operator", "noise", "alone", "dB"]
    assert lines[1].split() == ["conv", "Conv", "32.0%", "24.3"]
    assert f"{ESCAPED} (+1) in then" in lines[2]


def test_a_layer_louder_than_all_others_has_a_line_of_its_own():
    loud = replace(BLAMED, noise_share=0.9, dominant=True, without_db=40.04, macs_share=0.0041, weights_share=0.00002)
    costs = "y has 21.3 dB if it is quantized and 40.0 dB if it is in float; it has "
    costs += "0.41% of the multiply-accumulates and 0.00% of the weights"
    lines = printed(print_blame, report(loud)).splitlines()
    assert lines[-2:] == [
        f"conv makes more noise than all other layers together: {costs}",
        "to leave it in float: `--nodes-to-exclude conv`",
    ]
    everything = printed(print_blame, report(replace(loud, macs_share=1.0))).splitlines()[-1]
    assert everything == "no other layer is quantized: without them it is a float model; try another mode"
    silent = printed(print_blame, report(replace(loud, without_db=None)))
    assert "and no noise if it is in float" in silent


def test_another_layer_that_may_be_louder_is_not_kept_quiet():
    line = "each other layer makes at most 40% (9 runs of one sample)"
    assert line in printed(print_blame, report(BLAMED, rest=0.4)).splitlines()
    assert "each other layer" not in printed(print_blame, report(BLAMED, rest=0.3))


def test_where_no_layer_stands_out_one_line_says_so():
    even = "no single layer dominates: each makes at most 20% of the noise at y\n"
    assert printed(print_blame, report()) == even
    unknown = "9 runs of one sample found no layer that makes most of the noise at y\n"
    assert printed(print_blame, report(rest=0.6)) == unknown


def test_a_problem_is_said_and_escaped():
    assert printed(print_blame, BlameReport(problem=HOSTILE)) == f"layers NOT measured: {ESCAPED}\n"


NOISY = replace(BOUNDARY, graph="", sqnr_db=20.0)


def rows(*sqnrs: float | None) -> list[list[str]]:
    found = [replace(NOISY, tensor=f"t{number}", sqnr_db=sqnr_db) for number, sqnr_db in enumerate(sqnrs)]
    return cells(printed(print_noisiest, found))


def test_the_noisiest_come_first_and_tensors_without_noise_not_at_all():
    assert rows(40.0, 20.0, None, 60.0) == [
        [""],
        ["most noise against the baseline, 3 of 4 quantized tensors"],
        ["tensor", "kind", "noise", "SQNR dB"],
        ["t1", "activation", "10.00%", "20.0"],
        ["t0", "activation", "1.00%", "40.0"],
        ["t3", "activation", "0.10%", "60.0"],
    ]


def test_a_screen_has_room_for_the_rest():
    found = rows(*range(SHOWN_TENSORS + 5))
    assert [row[0] for row in found[3:]] == [f"t{number}" for number in range(SHOWN_TENSORS)]


@pytest.mark.parametrize(
    ("decibels", "figures"),
    [
        (79.0, ["0.01%", "79.0"]),
        (81.0, ["< 0.01%", "81.0"]),
        (0.0, ["100.00%", "0.0"]),
        (-19.9, ["988.55%", "-19.9"]),
        (-61.0, ["1.12e+05%", "-61.0"]),
        (-float("inf"), ["1e+302%", "-inf"]),
    ],
)
def test_noise_that_is_tiny_or_larger_than_the_signal_has_a_figure_too(decibels: float, figures: list[str]):
    assert rows(decibels)[3][2:] == figures


def test_the_noise_is_the_root_mean_square_in_relation_to_that_of_the_signal():
    random = np.random.default_rng(0)
    signal, noise = random.normal(size=1000), random.normal(size=1000) * 0.03
    expected = np.sqrt(np.mean(noise**2)) / np.sqrt(np.mean(signal**2))
    assert relative_noise(sqnr_db(signal, signal + noise) or 0) == pytest.approx(expected)


def test_scopes_are_named_and_names_escaped():
    text = printed(print_noisiest, (replace(NOISY, tensor=HOSTILE, graph="then"),))
    assert f"  {ESCAPED} in then  activation  10.00%" in text


def test_errors_of_pairs_are_said_to_be_of_their_own_tensor():
    worst = (
        TensorAccuracy(tensor=HOSTILE, graph="", kind="weight", sqnr_db=8.04),
        TensorAccuracy(tensor="t", graph="then", kind="activation", sqnr_db=9.96),
    )
    assert cells(printed(print_pair_errors, worst)) == [
        ["largest errors of pairs on their own tensors; outputs may be less affected"],
        ["tensor", "kind", "noise", "SQNR dB"],
        [ESCAPED, "weight", "39.63%", "8.0"],
        ["t in then", "activation", "31.77%", "10.0"],
    ]
    assert printed(print_pair_errors, ()) == ""


SAMPLE = WorstSample(number=17, files=(), sqnr_db=12.345, max_abs=0.25)
OTHERS = SampleDistribution(samples=9, exact=0, zero_reference=0, nonfinite=0, median_db=41.0)


def said(sample: WorstSample = SAMPLE, name: str = "y") -> str:
    output = OutputResult(name=name, nonfinite=0, worst_samples=(sample,), sample_sqnr=OTHERS)
    return printed(print_worst_sample, output).rstrip("\n")


def changed(**values: object) -> WorstSample:
    found = {"number": 17, "files": (), "sqnr_db": 12.345, "max_abs": 0.25} | values
    return WorstSample(**found)


def test_a_sample_far_below_the_median_is_named_with_its_file():
    assert said() == "worst sample of 'y': number 17, with 12.35 dB; the median of 9 samples is 41.00 dB"
    assert said(changed(files=("cats/17.png",))).startswith("worst sample of 'y': number 17 (cats/17.png), with ")
    assert "17 (a.png and 2 more files), with " in said(changed(files=("a.png", "b.png", "c.png")))


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"sqnr_db": None, "zero_reference": True}, "with an error of 0.25; the baseline is 0 everywhere; "),
        ({"nonfinite": 2}, "with 2 elements that are NaN or infinite in one model only; "),
        ({"nonfinite": 1}, "with 1 element that is NaN or infinite in one model only; "),
    ],
)
def test_what_is_worse_than_any_ratio_says_why(values, told):
    assert told in said(changed(**values))


def test_an_output_without_samples_says_nothing():
    assert printed(print_worst_sample, OutputResult(name="y", nonfinite=0, exact=True)) == ""


def test_names_of_model_and_data_are_escaped():
    text = said(changed(files=(HOSTILE,)), HOSTILE)
    assert text.count("evil") == text.count(ESCAPED) == 2
