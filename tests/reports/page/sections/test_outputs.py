"""Outputs of check and quantize: the worst first, with their worst samples; warnings; and outputs of two models."""

from pathlib import Path
from typing import Any

from support.page_blocks import blocks_of, column, lines, states, table, texts
from support.pairs import pair_of, rows_of
from support.printed import ESCAPED, HOSTILE
from support.saved_reports import ALL, BUILD, CHECK, QUANTIZE, SAMPLES, SECOND, edited, save

from qdqtool.reports.blocks import Table
from qdqtool.reports.page.sections import outputs
from qdqtool.reports.page.sections.outputs import blocks
from qdqtool.reports.saved.reading import read_reports
from qdqtool.reports.saved.story import join

OUTPUT = CHECK["outputs"][0]
EXACT = {"exact": True, "sqnr_db": None, "cosine": None, "max_abs": 0.0}
LABELS = {"exact": False, "sqnr_db": None, "cosine": None, "max_abs": None, "agreement": 0.875}
FAR = "Samples that are far worse than the others"
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
        ("What the check left out", (f"{HOSTILE} in then: the branch never ran",)),
        (
            "Notes of the check",
            (
                "codes of x were chosen with data: judged by the recorded error",
                "ONNX Runtime rounds twice: 1 element at 2 nodes",
            ),
        ),
    ]


def tables(folder: Path, **documents: Any) -> dict[str, Table]:
    found = blocks(join(read_reports(save(folder, **documents))))
    return {block.caption: block for block in found if isinstance(block, Table)}


def with_samples(*outputs: Any) -> Any:
    """A check with outputs of their own samples."""
    base = CHECK["outputs"][0]
    return edited(CHECK, lambda it: it.update(outputs=[{**base, **output} for output in outputs]))


def test_the_samples_of_the_worst_output_come_first(tmp_path: Path):
    good = {"name": "good", "sqnr_db": 50.0, **SAMPLES}
    bad = {"name": "bad", "sqnr_db": 20.0, **SAMPLES}
    found = tables(tmp_path, check=with_samples(good, bad))[FAR]
    assert [[cell.text for cell in row] for row in found.rows] == [
        ["bad", "17", "12.50 dB", "0.75", "cats/17.png"],
        ["bad", "3", "30.00 dB", "0.5", "no file of its own"],
        ["good", "17", "12.50 dB", "0.75", "cats/17.png"],
        ["good", "3", "30.00 dB", "0.5", "no file of its own"],
    ]


def test_what_is_worse_than_any_ratio_sorts_below_all(tmp_path: Path):
    sample = SAMPLES["worst_samples"][0]
    nan = {**sample, "nonfinite": 3}
    zeros = {**sample, "sqnr_db": None, "zero_reference": True}
    found = tables(tmp_path, check=with_samples({**SAMPLES, "worst_samples": [nan, zeros, sample]}))[FAR]
    cells = [row[2] for row in found.rows]

    assert [cell.text for cell in cells] == ["NaN or infinite in 3 elements", "float output is 0", "12.50 dB"]
    assert [cell.sort for cell in cells] == sorted(cell.sort for cell in cells)
    assert [cell.state for cell in cells] == ["failed", "warning", "warning"]


def test_the_distribution_has_its_quartiles_and_every_kind_of_sample(tmp_path: Path):
    found = tables(tmp_path, check=with_samples(SAMPLES))["SQNR of single samples"]
    assert [cell.text for cell in found.rows[0]] == [
        *("y", "12.50 dB", "35.00 dB", "40.00 dB", "42.00 dB", "45.00 dB"),
        *("1,000", "2", "1"),
    ]
    assert [column.title for column in found.columns][-3:] == ["Samples", "Exact", "Float output 0"]


def test_only_samples_far_below_the_median_are_listed_and_data_without_files_has_no_column_for_them(tmp_path: Path):
    near = {**SAMPLES["worst_samples"][1], "sqnr_db": 34.5}
    both = with_samples({**SAMPLES, "worst_samples": [{**near, "sqnr_db": 33.5}, near]})
    found = tables(tmp_path, check=both)[FAR]
    assert [(row[2].text, row[2].state) for row in found.rows] == [("33.50 dB", "warning")]
    assert [column.title for column in found.columns] == ["Output", "Sample", "SQNR", "Largest difference"]
    assert FAR not in tables(tmp_path, check=with_samples({**SAMPLES, "worst_samples": [near]}))


def test_reports_of_earlier_versions_have_no_samples(tmp_path: Path):
    assert [*tables(tmp_path, check=CHECK, quantize=QUANTIZE)] == [
        "Outputs against the float model, worst first",
        "The same as quantize measured it on 2 hold-out samples",
    ]


DASH = "\N{EN DASH}"


def with_outputs(documents: Any, *made: Any) -> Any:
    return {"check": documents["check"] | {"outputs": [CHECK["outputs"][0] | each for each in made]}}


def test_outputs_are_joined_by_name_the_worst_first(tmp_path: Path):
    a = with_outputs(ALL, {"name": "p", "sqnr_db": 50.0}, {"name": "q", "sqnr_db": 20.0}, {"name": "old"})
    b = with_outputs(SECOND, {"name": "q", "sqnr_db": 22.5}, {"name": "p", "sqnr_db": 15.25}, {"name": "new"})
    found = outputs.compared(pair_of(tmp_path, a, b))

    assert [*rows_of(found)][:2] == ["p", "q"]
    assert rows_of(found) == {
        "p": ["50.00 dB", "15.25 dB", "+34.75 dB"],
        "q": ["20.00 dB", "22.50 dB", "-2.50 dB"],
        "old": ["41.25 dB", "unknown", DASH],
        "new": ["unknown", "41.25 dB", DASH],
    }


def test_outputs_that_are_not_float_are_compared_by_equal_elements(tmp_path: Path):
    a = with_outputs(ALL, {"name": "label", "agreement": 0.75, "sqnr_db": None})
    b = with_outputs(SECOND, {"name": "label", "exact": True, "agreement": 1.0, "sqnr_db": None})
    assert rows_of(outputs.compared(pair_of(tmp_path, a, b))) == {"label": ["75.00%", "100.00%", "-25.00%"]}


def test_an_unfair_difference_of_outputs_is_replaced_by_the_reason(tmp_path: Path):
    b = edited(with_outputs(SECOND, {}), lambda it: it["check"]["data"].update(seed=3))
    assert rows_of(outputs.compared(pair_of(tmp_path, ALL, b)))["y"] == ["41.25 dB", "41.25 dB", "other data"]
    assert outputs.compared(pair_of(tmp_path, ALL, {"quantize": SECOND["quantize"]})) == ()
