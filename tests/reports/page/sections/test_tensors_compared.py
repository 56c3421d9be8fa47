"""Tensors of two models."""

from pathlib import Path
from typing import Any

from support.pairs import pair_of, rows_of, said_in, table_of
from support.saved_reports import ALL, CHECK, SECOND, edited

from qdqtool.reports.page.sections import tensors

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
