"""The charts and tables of ranges and scales: what is drawn is what the report says."""

from pathlib import Path
from typing import Any

import pytest
from support.saved_reports import ALL, QUANTIZE, edited, save

from qdqtool.errors import UsageError
from qdqtool.reports.blocks import Block, Charts, Table
from qdqtool.reports.page import tensor_charts
from qdqtool.reports.page.sections.ranges import blocks
from qdqtool.reports.page.sections.tensors import blocks as tensor_blocks
from qdqtool.reports.saved.reading import read_reports
from qdqtool.reports.saved.story import join


def made(folder: Path, **documents: Any) -> tuple[Block, ...]:
    return blocks(join(read_reports(save(folder, **documents))))


def rows(block: Block) -> list[list[str]]:
    assert isinstance(block, Table)
    return [[cell.text for cell in row] for row in block.rows]


def test_activations_come_with_their_counts_and_methods(tmp_path: Path):
    charts, table, *_ = made(tmp_path, quantize=QUANTIZE)

    assert isinstance(charts, Charts)
    assert charts.kind == "ranges"
    assert charts.data == [
        (
            "x",
            "int8",
            (-3.5, 4.0, 1000),
            (2.5, "mse", "less squared error", 0.004),
            (("max", 4.0, 0.0), ("mse", 2.5, 0.004)),
            (0.5, "800 100 50 0*2 3 0 1", 46, 0),
        )
    ]
    assert rows(table) == [["x", "-3.5", "4", "2.5", "mse", "0.4%", "1.6"]]


def test_weights_come_with_their_points(tmp_path: Path):
    *_, charts, table = made(tmp_path, quantize=QUANTIZE)
    assert isinstance(charts, Charts)
    assert charts.kind == "scales"
    assert charts.data == [("w", "int8", 0, 7, 2, "0.01 0.002 0 0.04", "0.02 0.002 0.05 0.04", 1)]
    assert rows(table) == [["w", "7", "1", "0.002", "0.05", "25"]]


def test_what_is_not_known_is_said(tmp_path: Path):
    def given(report: Any) -> None:
        entry = report["activation_ranges"][0]
        entry.update(values=None, clipped=None, method="given", methods=[], histogram=None, shared=True)
        report["weight_scales"] = []

    charts, table = made(tmp_path, quantize=edited(QUANTIZE, given))

    assert isinstance(charts, Charts)
    assert charts.data[0][2:] == (
        (-3.5, 4.0, "unknown"),
        (2.5, "given, of a tensor with the same scale", "less squared error", None),
        (),
        None,
    )
    assert rows(table) == [["x", "-3.5", "4", "2.5", "given, of a tensor with the same scale", "unknown", "unknown"]]


def test_names_and_words_of_the_report_are_escaped(tmp_path: Path):
    def hostile(report: Any) -> None:
        entry = report["activation_ranges"][0]
        entry.update(tensor="a\u202eb", method="\x1b[1m", reason="\u202e")
        entry["methods"][0]["method"] = "\u202e"

    charts, *_ = made(tmp_path, quantize=edited(QUANTIZE, hostile))

    assert isinstance(charts, Charts)
    assert charts.data[0][0] == r"a\u202eb"
    assert charts.data[0][3] == (2.5, r"\x1b[1m", r"\u202e", 0.004)
    assert charts.data[0][4][0] == (r"\u202e", 4.0, 0.0)  # type: ignore[index]


def test_a_part_of_a_large_model_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tensor_charts, "MOST", 2)

    def several(report: Any) -> None:
        for key in ("activation_ranges", "weight_scales"):
            report[key] = [report[key][0] | {"tensor": f"{key}{number}"} for number in range(3)]

    found = made(tmp_path, quantize=edited(QUANTIZE, several))

    assert [len(block.charts if isinstance(block, Charts) else block.rows) for block in found] == [2] * 4  # type: ignore[union-attr]
    assert all(block.caption.endswith("; the JSON report has all 3") for block in found[1::2])  # type: ignore[union-attr]


def test_reports_without_ranges_have_no_section(tmp_path: Path):
    def older(report: Any) -> None:
        del report["activation_ranges"], report["weight_scales"]

    assert made(tmp_path, quantize=edited(QUANTIZE, older)) == ()
    assert made(tmp_path, check=ALL["check"]) == ()


def test_names_of_other_tables_lead_to_charts(tmp_path: Path):
    (table,) = tensor_blocks(join(read_reports(save(tmp_path, **ALL))))

    assert isinstance(table, Table)
    assert [row[0].chart for row in table.rows] == [52]
    (alone,) = tensor_blocks(join(read_reports(save(tmp_path, check=ALL["check"]))))
    assert isinstance(alone, Table)
    assert [row[0].chart for row in alone.rows] == [None]


@pytest.mark.parametrize("text", ["1, 2", "1*2*3", "1*100", "a", "-1", "1 " * 2000])
def test_counts_of_another_form_are_damaged(text: str, tmp_path: Path):
    damaged = edited(QUANTIZE, lambda it: it["activation_ranges"][0]["histogram"].update(counts=text))
    with pytest.raises(UsageError, match="damaged report of `qdqtool quantize`"):
        made(tmp_path, quantize=damaged)


@pytest.mark.parametrize("text", ["nan", "1,2", "-1", "0x1", "1 " * 3000])
def test_scales_of_another_form_are_damaged(text: str, tmp_path: Path):
    damaged = edited(QUANTIZE, lambda it: it["weight_scales"][0].update(smallest=text))
    with pytest.raises(UsageError, match="damaged report of `qdqtool quantize`"):
        made(tmp_path, quantize=damaged)
