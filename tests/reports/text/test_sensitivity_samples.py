"""The worst sample is named where it is far below the others, and only there."""

import pytest
from support.printed import ESCAPED, HOSTILE, printed

from qdqtool.accuracy.checking.report import OutputResult
from qdqtool.accuracy.report import SampleDistribution, WorstSample
from qdqtool.reports.text.sensitivity import print_worst_sample

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


def test_a_sample_near_the_median_is_not_named():
    assert said(changed(sqnr_db=35.5)) == ""


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"sqnr_db": None, "zero_reference": True}, "off by 0.25 where the baseline is 0 everywhere; "),
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
