"""Outputs of two models."""

from pathlib import Path
from typing import Any

from support.pairs import pair_of, rows_of
from support.saved_reports import ALL, CHECK, SECOND, edited

from qdqtool.reports.page.sections import outputs

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
