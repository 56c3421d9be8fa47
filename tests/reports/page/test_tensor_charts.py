"""Which tensors have a chart, and in which order."""

from pathlib import Path
from typing import Any

import pytest
from support.saved_reports import CHECK, QUANTIZE, edited, save

from qdqtool.reports.blocks import Cell
from qdqtool.reports.page import tensor_charts
from qdqtool.reports.page.tensor_charts import charted, shown_ranges, shown_scales, tensor_cell
from qdqtool.reports.saved.reading import read_reports
from qdqtool.reports.saved.story import Story, join


def story(folder: Path, ranges: dict[str, dict[str, Any]], scales: dict[str, dict[str, Any]]) -> Story:
    def edit(report: Any) -> None:
        for key, entries in (("activation_ranges", ranges), ("weight_scales", scales)):
            report[key] = [report[key][0] | {"tensor": name} | each for name, each in entries.items()]

    return join(read_reports(save(folder, quantize=edited(QUANTIZE, edit))))


def test_the_largest_values_in_units_of_the_range_come_first(tmp_path: Path):
    ranges = {
        "twice": {"min": -4.0, "max": 1.0, "range": 2.0},
        "whole": {"min": 0.0, "max": 9.0, "range": 9.0},
        "given": {"values": None, "clipped": None},
        "zeros": {"min": 0.0, "max": 0.0, "range": 0.0},
        "thrice": {"min": 0.0, "max": 3.0, "range": 1.0},
    }
    found = story(tmp_path, ranges, {})

    assert [each.tensor for each in shown_ranges(found)] == ["thrice", "twice", "whole", "given", "zeros"]
    assert [tensor_charts.reach(each) for each in shown_ranges(found)] == [3, 2, 1, None, None]


def test_channels_of_zeros_come_first_and_then_the_most_uneven(tmp_path: Path):
    scales = {
        "even": {"smallest": "2 2 2", "largest": "", "dead": 0},
        "uneven": {"smallest": "1 0.5", "largest": "1 4", "dead": 0},
        "dead": {"smallest": "0 0.5", "largest": "0.25 0.5", "dead": 1},
        "zeros": {"smallest": "0 0", "largest": "", "dead": 2},
    }
    found = shown_scales(story(tmp_path, {}, scales))

    assert [each.tensor for each in found] == ["dead", "zeros", "uneven", "even"]
    assert [tensor_charts.extremes(each) for each in found] == [(0.25, 0.5), (None, None), (0.5, 4.0), (2.0, 2.0)]
    assert [tensor_charts.unevenness(each) for each in found] == [2.0, None, 8.0, 1.0]


def test_no_more_are_shown_than_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tensor_charts, "MOST", 2)
    ranges = {f"x{number}": {"range": 1.0, "max": float(number)} for number in (1, 9, 5)}
    found = story(tmp_path, ranges, {f"w{number}": {} for number in range(3)})
    assert charted(found) == {"x9", "x5", "w0", "w1"}


def test_a_name_leads_to_its_chart(tmp_path: Path):
    known = charted(story(tmp_path, {"x": {"graph": "body"}}, {"w": {}}))
    assert known == {"body/x", "w"}
    assert tensor_cell("body/x", known) == Cell("body/x", "body/x", chart=52)
    assert tensor_cell("x", known) == Cell("x", "x")
    assert charted(join(read_reports(save(tmp_path, check=CHECK)))) == frozenset()
