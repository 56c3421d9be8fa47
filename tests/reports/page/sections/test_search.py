"""The curve of a search: the figures of its states, the limit, and the state that was written."""

from pathlib import Path
from typing import Any

from support.saved_reports import QUANTIZE, SEARCH, edited, save

from qdqtool.reports.blocks import Block, Curve, Facts, Table
from qdqtool.reports.page.sections.search import blocks
from qdqtool.reports.saved.reading import read_reports
from qdqtool.reports.saved.story import join


def shown(folder: Path, search: Any, **quantize: Any) -> tuple[Block, ...]:
    return blocks(join(read_reports(save(folder, quantize={**QUANTIZE, **quantize, "search": search}))))


def rows(block: Block) -> list[list[str]]:
    assert isinstance(block, Table)
    return [[cell.text for cell in row] for row in block.rows]


def test_the_curve_has_the_figures_of_both_kinds_of_samples(tmp_path: Path):
    facts, curve, table = shown(tmp_path, SEARCH)

    assert isinstance(facts, Facts)
    assert {name: cell.text for name, cell in facts.rows} == {
        "Asked for": "every output keeps 35 dB",
        "Written model": "3 layers in float, 25.00% of the cost, 40.50 dB measured",
        "Search": "on 8 selection samples, so its figures are optimistic",
        "Measured": "on hold-out samples, with a candidate model that was written",
    }
    assert isinstance(curve, Curve)
    assert curve.x == (0.0, 1 - 0.95, 0.25, 0.5)
    assert [series.values for series in curve.series] == [(30.25, 36.5, 41.5, 50.0), (28.5, 34.0, 40.5, None)]
    assert [series.name for series in curve.series] == ["on the 8 selection samples", "measured on hold-out samples"]
    assert (curve.limit, curve.chosen, curve.unit) == (35.0, 2, "dB")
    assert isinstance(table, Table)
    assert [column.title for column in table.columns] == [
        *("Candidate", "Layers in float", "Cost in float", "SQNR, search", "SQNR, measured")
    ]
    assert rows(table) == [
        ["every layer quantized", "0", "0.00%", "30.25 dB", "28.50 dB"],
        ["measured", "1", "5.00%", "36.50 dB", "34.00 dB"],
        ["written model", "3", "25.00%", "41.50 dB", "40.50 dB"],
        ["search only", "9", "50.00%", "50.00 dB", "\N{EN DASH}"],
    ]


def test_a_metric_has_a_curve_of_its_losses(tmp_path: Path):
    def measured(search: Any) -> None:
        search.update(min_sqnr_db=None, max_metric_loss=1.5, metric="top-1", loss_unit="percentage points")
        for state, loss, held in zip(search["states"], (9.0, 3.0, 1.0, None), (8.0, None, 1.25, None), strict=True):
            state.update(metric_loss=loss, measured_metric_loss=held)

    facts, sqnr, loss, table = shown(tmp_path, edited(SEARCH, measured))

    assert isinstance(sqnr, Curve)
    assert isinstance(loss, Curve)
    assert (sqnr.limit, loss.limit, loss.unit) == (None, 1.5, "percentage points")
    assert [series.values for series in loss.series] == [(9.0, 3.0, 1.0, None), (8.0, None, 1.25, None)]
    assert isinstance(facts, Facts)
    assert facts.rows[0][1].text == "top-1 loses at most 1.5 percentage points"
    assert facts.rows[1][1].text.endswith("40.50 dB measured, top-1 loses 1.25 percentage points")
    assert rows(table)[2][-2:] == ["1 percentage points", "1.25 percentage points"]


def test_the_fallback_format_has_a_column_where_a_layer_has_it(tmp_path: Path):
    finer = edited(SEARCH, lambda it: it["states"][2].update(layers_in_fallback=4))
    facts, _, table = shown(tmp_path, finer)

    assert isinstance(table, Table)
    assert [row[2] for row in rows(table)] == ["0", "0", "4", "0"]
    assert isinstance(facts, Facts)
    assert facts.rows[1][1].text.startswith("3 layers in float and 4 in the secondary format, ")


def test_a_state_that_gave_nan_says_so_and_is_no_point_of_the_curve(tmp_path: Path):
    nan = edited(SEARCH, lambda it: it["states"][0].update(worst_sqnr_db=None, measured_sqnr_db=None, finite=False))
    _, curve, table = shown(tmp_path, nan)
    assert rows(table)[0][-2:] == ["NaN or infinite", "NaN or infinite"]
    assert isinstance(curve, Curve)
    assert curve.series[0].values[0] is None


def test_of_one_figure_there_is_no_curve(tmp_path: Path):
    def alone(search: Any) -> None:
        search["states"] = [{**search["states"][0], "measured_sqnr_db": None, "chosen": True}]

    found = shown(tmp_path, edited(SEARCH, alone))
    assert [type(block) for block in found] == [Facts, Table]


def test_without_a_search_there_is_nothing_to_show(tmp_path: Path):
    assert shown(tmp_path, None) == ()


def test_validation_data_is_told_from_held_back_samples(tmp_path: Path):
    accuracy = {**QUANTIZE["accuracy"], "held_back": False, "validation": "v.npz"}
    facts, *_ = shown(tmp_path, SEARCH, accuracy=accuracy)
    assert isinstance(facts, Facts)
    assert facts.rows[-1][1].text == "on validation samples, with a candidate model that was written"
