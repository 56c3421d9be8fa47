"""Quantized tensors against those of the float model, and those of two models against each other."""

from pathlib import Path
from typing import Any

from support.page_blocks import blocks_of, column, has_bars, states, table, texts
from support.pairs import pair_of, rows_of, said_in, table_of
from support.printed import ESCAPED, HOSTILE
from support.saved_reports import ALL, CHECK, QUANTIZE, SECOND, edited

from qdqtool.reports.page.sections import tensors
from qdqtool.reports.page.sections.tensors import blocks

BOUNDARY = CHECK["boundaries"][0]


def checked(*boundaries: Any) -> Any:
    return edited(CHECK, lambda it: it.update(boundaries=[{**BOUNDARY, **each} for each in boundaries]))


def test_a_row_has_format_scales_and_errors(tmp_path: Path):
    found = table(blocks_of(blocks, tmp_path, check=CHECK))
    assert found.caption == "Largest error in steps first"
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


DASH = "\N{EN DASH}"


def with_tensors(documents: Any, **sqnrs: float) -> Any:
    known = CHECK["boundaries"][0]
    made = [known | {"tensor": name, "sqnr_db": value} for name, value in sqnrs.items()]
    return {"check": documents["check"] | {"boundaries": made}}


def test_tensors_are_joined_and_those_of_one_model_are_listed(tmp_path: Path):
    a = with_tensors(ALL, x=30.0, y=20.0, weight=10.0, same=5.0, near=5.001)
    b = with_tensors(SECOND, x=31.0, y=12.0, extra=1.0, same=5.0, near=5.002)
    found = tensors.compared(pair_of(tmp_path, a, b))

    assert [row[0].text for row in table_of(found).rows] == ["y", "x"]
    assert rows_of(found)["y"] == [
        "activation",
        *("int8, per-tensor", "int8, per-tensor"),
        *("20.00 dB", "12.00 dB", "+8.00 dB"),
        *("5.00%", "5.00%", "0.00%"),
    ]
    assert said_in(found) == [
        "2 tensors without a difference are left out.",
        "1 tensor in A only: weight",
        "1 tensor in B only: extra",
    ]


def test_a_tensor_in_another_format_differs_whatever_its_sqnr(tmp_path: Path):
    other = edited(with_tensors(SECOND, x=30.0), lambda it: it["check"]["boundaries"][0].update(format="uint8"))
    found = tensors.compared(pair_of(tmp_path, with_tensors(ALL, x=30.0), other))
    assert rows_of(found)["x"][1:3] == ["int8, per-tensor", "uint8, per-tensor"]


def test_differences_of_clipping_are_in_points_and_never_rounded_to_nothing(tmp_path: Path):
    a = with_tensors(ALL, x=30.0)
    b = edited(with_tensors(SECOND, x=30.0), lambda it: it["check"]["boundaries"][0].update(clipped=0))
    tiny = edited(a, lambda it: it["check"]["boundaries"][0].update(clipped=1, elements=40_000))
    assert rows_of(tensors.compared(pair_of(tmp_path, a, b)))["x"][-3:] == ["5.00%", "0.00%", "+5.00%"]
    assert rows_of(tensors.compared(pair_of(tmp_path, tiny, b)))["x"][-3:] == ["< 0.01%", "0.00%", "+0.0025%"]


def test_a_tensor_that_several_nodes_quantize_has_its_worst_sqnr(tmp_path: Path):
    twice = with_tensors(ALL, x=30.0)
    twice["check"]["boundaries"].append(twice["check"]["boundaries"][0] | {"sqnr_db": 9.0})
    found = tensors.compared(pair_of(tmp_path, twice, with_tensors(SECOND, x=31.0)))
    assert rows_of(found)["x"][3:6] == ["9.00 dB", "31.00 dB", "-22.00 dB"]


def test_tensors_of_other_data_have_no_difference(tmp_path: Path):
    b = edited(with_tensors(SECOND, x=31.0), lambda it: it["check"]["data"].update(samples=1))
    found = tensors.compared(pair_of(tmp_path, with_tensors(ALL, x=30.0), b))
    assert rows_of(found)["x"][3:] == ["30.00 dB", "31.00 dB", DASH, "5.00%", "5.00%", DASH]
    assert said_in(found)[0].startswith("No difference of SQNRs is given (other samples)")
