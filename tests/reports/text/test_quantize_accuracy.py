"""What the terminal says of the accuracy of a quantized model."""

import pytest
from support.printed import ESCAPED, HOSTILE, printed

from qdqtool.accuracy.report import Accuracy, OutputAccuracy
from qdqtool.reports.text.quantize import SHOWN_OUTPUTS, print_accuracy
from qdqtool.samples.split import TOO_FEW


def text_of(*outputs: OutputAccuracy, **changes: object) -> str:
    return printed(print_accuracy, Accuracy(samples=4, outputs=outputs, **{"held_back": True, **changes}))


def output(
    sqnr_db: float | None = 31.25, *, exact: bool = False, finite: bool = True, **changes: int
) -> OutputAccuracy:
    return OutputAccuracy(name="y", sqnr_db=sqnr_db, exact=exact, finite=finite, **changes)


def test_without_data_the_option_is_named():
    assert printed(print_accuracy, None) == "accuracy not measured: there is no data (--calib-data)\n"


def test_a_problem_is_said_and_escaped():
    assert printed(print_accuracy, Accuracy(samples=0, problem=HOSTILE)) == f"accuracy NOT measured: {ESCAPED}\n"


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (output(), "31.2 dB"),
        (output(9.9), "9.9 dB, POOR"),
        (output(-0.5), "-0.5 dB, LOST: the error is larger than the output itself"),
        (output(None, exact=True), "equal"),
        (output(None, finite=False), "NaN or infinity where the float model has none"),
        (output(None), "the float output is zero everywhere, and this one is not"),
        (
            output(None, other_shapes=1),
            "not compared; another shape than the float model's in 1 sample",
        ),
        (output(float_nonfinite=2), "31.2 dB; NaN or infinite in the float model: 2 elements"),
    ],
)
def test_an_output_has_one_line(found: OutputAccuracy, words: str):
    head, line = text_of(found).splitlines()

    assert head == "SQNR against the float model, on 4 hold-out samples of the calibration data"
    assert line == f"  output     y: {words}"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"validation": HOSTILE}, f"4 samples of {ESCAPED}"),
        ({"reason": TOO_FEW}, "4 calibration samples: too few to hold any out"),
        ({"reason": TOO_FEW, "samples": 1}, "1 calibration sample: too few to hold any out"),
        ({"held_back": True, "samples": 1}, "1 hold-out sample of the calibration data"),
    ],
)
def test_the_samples_are_named(changes: dict[str, object], words: str):
    text = printed(print_accuracy, Accuracy(**{"samples": 4, "outputs": (output(),), **changes}))

    assert text.splitlines()[0] == f"SQNR against the float model, on {words}"


def test_it_is_said_that_the_written_model_has_other_ranges():
    line = "  with ranges of the other samples only; the written model has those of all"

    assert text_of(output(), refitted=True).splitlines()[1] == line
    assert line not in text_of(output())


def test_no_float_output_is_said():
    assert "  no output has float values to compare\n" in text_of()


def test_a_long_list_is_cut_and_the_rest_counted():
    lines = text_of(*[output()] * (SHOWN_OUTPUTS + 3)).splitlines()

    assert len(lines) == 1 + SHOWN_OUTPUTS + 1
    assert lines[-1] == "  … and 3 more (-v lists all)"
