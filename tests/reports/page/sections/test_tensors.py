"""Quantized tensors against those of the float model: a table for each check, in its order."""

from pathlib import Path
from typing import Any

from support.page_blocks import blocks_of, column, has_bars, states, table, texts
from support.printed import ESCAPED, HOSTILE
from support.saved_reports import CHECK, QUANTIZE, edited

from qdqtool.reports.page.sections.tensors import blocks

BOUNDARY = CHECK["boundaries"][0]


def checked(*boundaries: Any) -> Any:
    return edited(CHECK, lambda it: it.update(boundaries=[{**BOUNDARY, **each} for each in boundaries]))


def test_a_row_has_format_scales_and_errors(tmp_path: Path):
    found = table(blocks_of(blocks, tmp_path, check=CHECK))
    assert found.caption == "Largest error in steps first [check.json]"
    assert [texts(found, column.title)[0] for column in found.columns[:8]] == [
        *("x", "activation", "int8", "per-tensor", "33.50 dB", "5.00%", "3", "0.25")
    ]
    assert has_bars(found)


def test_the_order_is_that_of_the_report_and_numbers_sort_as_numbers(tmp_path: Path):
    found = table(blocks_of(blocks, tmp_path, check=checked({"tensor": "b", "max_steps": 12.5}, {"tensor": "a"})))
    assert texts(found, "Tensor") == ["b", "a"]
    assert texts(found, "Largest error in steps") == ["12.5", "3"]
    assert [cell.sort for cell in column(found, "Largest error in steps")] == [12.5, 3.0]


def test_equal_tensors_are_exact_and_sort_above_every_ratio(tmp_path: Path):
    equal, noisy = {"max_steps": 0.0, "mean_steps": 0.0, "sqnr_db": None}, {"sqnr_db": 200.0}
    found = table(blocks_of(blocks, tmp_path, check=checked(equal, noisy)))
    assert texts(found, "SQNR") == ["exact", "200.00 dB"]
    first, second = (cell.sort for cell in column(found, "SQNR"))
    assert isinstance(first, float)
    assert isinstance(second, float)
    assert first > second


def test_what_is_not_known_says_so(tmp_path: Path):
    unknown = {"sqnr_db": None, "max_steps": None, "mean_steps": None, "elements": 0, "clipped": 0}
    found = table(blocks_of(blocks, tmp_path, check=checked(unknown)))
    for title in ("SQNR", "Clipped", "Largest error in steps", "Mean error in steps"):
        assert (texts(found, title), states(found, title)) == (["unknown"], ["unknown"])


def test_names_have_their_scope_and_are_escaped(tmp_path: Path):
    found = table(blocks_of(blocks, tmp_path, check=checked({"tensor": HOSTILE, "graph": "body"})))
    assert texts(found, "Tensor") == [f"body/{ESCAPED}"]


def test_each_check_that_compared_tensors_has_a_table(tmp_path: Path):
    found = blocks_of(blocks, tmp_path, check=CHECK, alone=checked(), other=checked({"tensor": "z"}))
    assert [texts(table((block,)), "Tensor") for block in found] == [["x"], ["z"]]
    assert blocks_of(blocks, tmp_path, quantize=QUANTIZE) == ()
