"""The outputs on the page: the worst first, with the samples at which they are worst."""

from pathlib import Path
from typing import Any

from support.saved_reports import CHECK, QUANTIZE, SAMPLES, edited, save

from qdqtool.reports.blocks import Table
from qdqtool.reports.page.sections.outputs import blocks
from qdqtool.reports.saved.reading import read_reports
from qdqtool.reports.saved.story import join


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
    table = tables(tmp_path, check=with_samples(good, bad))["Worst samples"]

    assert [[cell.text for cell in row] for row in table.rows[:2]] == [
        ["bad", "17", "12.50 dB", "0.75", "cats/17.png", "check.json"],
        ["bad", "3", "30.00 dB", "0.5", "no file of its own", "check.json"],
    ]
    assert [row[0].text for row in table.rows] == ["bad", "bad", "good", "good"]


def test_what_is_worse_than_any_ratio_sorts_below_all(tmp_path: Path):
    sample = SAMPLES["worst_samples"][0]
    nan = {**sample, "nonfinite": 3}
    zeros = {**sample, "sqnr_db": None, "zero_reference": True}
    table = tables(tmp_path, check=with_samples({**SAMPLES, "worst_samples": [nan, zeros, sample]}))["Worst samples"]
    cells = [row[2] for row in table.rows]

    assert [cell.text for cell in cells] == ["NaN or infinite in 3 elements", "float output is 0", "12.50 dB"]
    assert [cell.sort for cell in cells] == sorted(cell.sort for cell in cells)
    assert [cell.state for cell in cells] == ["failed", "warning", "warning"]


def test_the_distribution_has_its_quartiles_and_every_kind_of_sample(tmp_path: Path):
    table = tables(tmp_path, check=with_samples(SAMPLES))["SQNR of single samples"]

    assert [cell.text for cell in table.rows[0]] == [
        *("y", "12.50 dB", "35.00 dB", "40.00 dB", "42.00 dB", "45.00 dB"),
        *("1,000", "2", "1", "check.json"),
    ]
    assert [column.title for column in table.columns][-4:] == ["Samples", "Exact", "Float output 0", "Report"]


def test_a_sample_far_below_the_median_is_marked_and_data_without_files_has_no_column_for_them(tmp_path: Path):
    near = {**SAMPLES["worst_samples"][1], "sqnr_db": 34.5}
    table = tables(tmp_path, check=with_samples({**SAMPLES, "worst_samples": [{**near, "sqnr_db": 33.5}, near]}))[
        "Worst samples"
    ]

    assert [(row[2].text, row[2].state) for row in table.rows] == [("33.50 dB", "warning"), ("34.50 dB", None)]
    assert [column.title for column in table.columns] == ["Output", "Sample", "SQNR", "Largest difference", "Report"]


def test_reports_of_earlier_versions_have_no_samples(tmp_path: Path):
    assert [*tables(tmp_path, check=CHECK, quantize=QUANTIZE)] == [
        "Outputs against the float model, worst first",
        "The same as quantize measured it on 2 hold-out samples",
    ]
