"""Outputs of check and quantize: the worst first, exact ones last, and the warnings of every check."""

from pathlib import Path
from typing import Any

from support.page_blocks import blocks_of, column, lines, states, table, texts
from support.printed import ESCAPED, HOSTILE
from support.saved_reports import BUILD, CHECK, QUANTIZE, edited

from qdqtool.reports.page.sections.outputs import blocks

OUTPUT = CHECK["outputs"][0]
EXACT = {"exact": True, "sqnr_db": None, "cosine": None, "max_abs": 0.0}
LABELS = {"exact": False, "sqnr_db": None, "cosine": None, "max_abs": None, "agreement": 0.875}
CHECKED, MEASURED = "Outputs against the float model, worst first", "The same as quantize measured it on 2 "


def checked(*outputs: Any, **changes: Any) -> Any:
    return edited(CHECK, lambda it: it.update(outputs=[{**OUTPUT, **output} for output in outputs], **changes))


def measured(*outputs: Any, **changes: Any) -> Any:
    base = QUANTIZE["accuracy"]["outputs"][0]
    told = [{**base, **output} for output in outputs]
    return edited(QUANTIZE, lambda it: it["accuracy"].update(outputs=told, **changes))


def test_the_worst_output_comes_first_and_an_exact_one_last(tmp_path: Path):
    outputs = ({"name": "exact", **EXACT}, {"name": "good"}, {"name": "bad", "sqnr_db": -3.0})
    unknown = {"name": "no ratio", "sqnr_db": None}
    found = table(blocks_of(blocks, tmp_path, check=checked(*outputs, unknown)), CHECKED)

    assert texts(found, "Output") == ["no ratio", "bad", "good", "exact"]
    assert texts(found, "SQNR") == ["unknown", "-3.00 dB", "41.25 dB", "exact"]
    assert states(found, "SQNR") == ["unknown", None, None, None]
    numbers = [cell.sort for cell in column(found, "SQNR")[1:]]
    assert numbers == sorted(numbers, key=lambda each: each or 0)
    assert texts(found, "Cosine") == ["0.99900000", "0.99900000", "0.99900000", "unknown"]
    assert texts(found, "Largest difference") == ["0.5", "0.5", "0.5", "0"]
    assert texts(found, "Equal elements") == ["not exact", "not exact", "not exact", "100.00%"]


def test_labels_have_the_share_that_is_equal_in_place_of_ratios(tmp_path: Path):
    same = {"name": "same", **LABELS, "exact": True, "agreement": 1.0}
    found = table(blocks_of(blocks, tmp_path, check=checked(same, {"name": "labels", **LABELS})), CHECKED)

    assert texts(found, "Output") == ["labels", "same"]
    assert texts(found, "Equal elements") == ["87.50%", "100.00%"]
    assert [cell.sort for cell in column(found, "Equal elements")] == [0.875, 1.0]
    assert texts(found, "SQNR") == texts(found, "Cosine") == ["not a float output"] * 2


def test_nan_is_a_warning_and_none_is_not(tmp_path: Path):
    found = table(blocks_of(blocks, tmp_path, check=checked({"nonfinite": 3}, {"sqnr_db": 50.0})), CHECKED)
    assert texts(found, "NaN or infinite") == ["3", "0"]
    assert states(found, "NaN or infinite") == ["warning", None]


def test_outputs_of_several_checks_stand_in_one_order_each_with_its_report(tmp_path: Path):
    other = checked({"name": HOSTILE, "sqnr_db": 1.0})
    found = table(blocks_of(blocks, tmp_path, check=CHECK, other=other), CHECKED)
    assert texts(found, "Output") == [ESCAPED, "y"]
    assert texts(found, "Report") == ["other.json", "check.json"]


def test_a_check_without_a_float_model_compares_nothing(tmp_path: Path):
    assert blocks_of(blocks, tmp_path, check=checked({}, baseline=None)) == ()


def test_what_quantize_measured_stands_beside_it(tmp_path: Path):
    outputs = (
        {"standard_error_db": 1.5},
        {"name": HOSTILE, "sqnr_db": None, "exact": True},
        {"name": "nan", "finite": False},
    )
    found = table(blocks_of(blocks, tmp_path, quantize=measured(*outputs)), MEASURED)

    assert found.caption == f"{MEASURED}hold-out samples"
    assert texts(found, "Output") == ["y", ESCAPED, "nan"]
    assert texts(found, "SQNR") == ["40.50 dB", "exact", "40.50 dB"]
    assert texts(found, "Standard error") == ["1.50 dB", "unknown", "unknown"]
    assert texts(found, "Finite") == ["yes", "yes", "no"]
    assert states(found, "Finite") == [None, None, "failed"]
    chosen = blocks_of(blocks, tmp_path, quantize=measured({}, held_back=False))
    assert table(chosen).caption == f"{MEASURED}calibration samples"


def test_why_nothing_was_measured_is_said(tmp_path: Path):
    found = blocks_of(blocks, tmp_path, quantize=measured(problem="no sample ran"))
    assert lines(found) == [("Accuracy that quantize measured", ("Nothing was measured: no sample ran",))]
    assert len(found) == 1
    assert blocks_of(blocks, tmp_path, quantize=QUANTIZE | {"accuracy": None}, build=BUILD) == ()


def test_warnings_of_every_check_are_listed(tmp_path: Path):
    found = blocks_of(blocks, tmp_path, check=checked(warnings=["a", "b"]), other=checked(warnings=["c"]))
    assert lines(found) == [("Warnings of the check", ("a [check.json]", "b [check.json]", "c [other.json]"))]


def test_what_was_left_out_and_what_explains_the_numbers_is_listed(tmp_path: Path):
    boundaries = [{**CHECK["boundaries"][0], "judged_by_data": True}]
    skipped = [{"node": HOSTILE, "graph": "then", "tensor": "t", "reason": "the branch never ran"}]
    faults = [{"fault": "rounds twice", "nodes": ["a", "b"], "elements": 1}]
    check = checked(boundaries=boundaries, not_observed=skipped, known_faults=faults)

    assert lines(blocks_of(blocks, tmp_path, check=check)) == [
        ("What the check left out", (f"{HOSTILE} in then: the branch never ran [check.json]",)),
        (
            "Notes of the check",
            (
                "data chose the codes of x: judged by the error that the model notes [check.json]",
                "ONNX Runtime rounds twice: 1 element at 2 nodes [check.json]",
            ),
        ),
    ]
