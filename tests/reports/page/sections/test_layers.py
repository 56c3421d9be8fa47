"""Layers: the noisiest first; what is not known says so, and what cannot be known has a dash."""

from pathlib import Path
from typing import Any

from support.page_blocks import blocks_of, column, has_bars, states, table, texts
from support.printed import ESCAPED, HOSTILE
from support.saved_reports import ALL, BUILD, CHECK, QUANTIZE, SENSITIVITY, edited

from qdqtool.reports.page.sections.layers import blocks

DASH = "\N{EN DASH}"
EFFECTS = ("Share of noise", "SQNR alone", "Gain in float", "Share of cost")
INPUTS = ("SQNR of worst input", "Clipped")


def effects(*layers: Any) -> Any:
    """A report of ``sensitivity`` on these layers."""
    base = SENSITIVITY["nodes"][0]
    return edited(SENSITIVITY, lambda it: it.update(nodes=[{**base, "nodes": [], **layer} for layer in layers]))


def test_all_that_reports_know_of_a_layer_stands_in_its_row(tmp_path: Path):
    found = table(blocks_of(blocks, tmp_path, **ALL), "Quantizable nodes, the noisiest first")

    assert [[cell.text for cell in row][: len(EFFECTS) + 5] for row in found.rows] == [
        ["conv", "Conv", "75.00%", "48.50 dB", "-0.50 dB", "90.00%", "33.50 dB", "5.00%", "int8"],
        ["add (part of conv)", "unknown", *[DASH] * 4, "unknown", "unknown", "unknown"],
        ["fc", "Gemm", *[DASH] * 6, "float"],
    ]
    assert states(found, "Precision") == ["passed", "unknown", None]
    assert has_bars(found)


def test_the_noisiest_come_first_and_layers_sort_by_numbers(tmp_path: Path):
    report = effects(
        {"node": "quiet", "noise_share": 0.00005},
        {"node": "loud", "noise_share": 0.5},
        {"node": "silent", "noise_share": 0.0},
        {"node": "unknown", "noise_share": None, "worst_sqnr_db": None, "gain_db": 1.5, "cost_share": None},
    )
    found = table(blocks_of(blocks, tmp_path, sensitivity=report))

    assert texts(found, "Layer") == ["loud", "quiet", "silent", "unknown"]
    assert texts(found, "Share of noise") == ["50.00%", "< 0.01%", "0.00%", "unknown"]
    assert [cell.sort for cell in column(found, "Share of noise")] == [0.5, 0.00005, 0.0, None]
    assert texts(found, "Gain in float") == ["-0.50 dB"] * 3 + ["+1.50 dB"]
    assert states(found, "SQNR alone") == [None, None, None, "unknown"]
    assert states(found, "Share of cost") == [None, None, None, "unknown"]


def test_without_sensitivity_what_layers_read_is_in_the_order_of_the_reports(tmp_path: Path):
    found = table(blocks_of(blocks, tmp_path, quantize=QUANTIZE, check=CHECK))

    assert found.caption == "Quantizable nodes in the order of the reports"
    assert [texts(found, title)[0] for title in INPUTS] == ["33.50 dB", "5.00%"]
    assert [texts(found, title)[0] for title in EFFECTS] == ["unknown"] * 4


def test_a_precision_that_was_not_planned_stands_out(tmp_path: Path):
    for actual, text, state in (
        ("float32", "float32, planned int8", "warning"),
        ("unknown", "unknown, planned int8", "unknown"),
        ("int8", "int8", "passed"),
    ):
        build = edited(BUILD, lambda it, actual=actual: it["nodes"][0].update(actual=actual))
        found = table(blocks_of(blocks, tmp_path, **ALL | {"build": build}))
        assert (texts(found, "Precision")[0], states(found, "Precision")[0]) == (text, state)


def test_names_have_their_scope_and_are_escaped(tmp_path: Path):
    report = effects({"node": HOSTILE, "graph": "body", "nodes": [HOSTILE, "add"]})
    assert texts(table(blocks_of(blocks, tmp_path, sensitivity=report)), "Layer") == [
        f"body/{ESCAPED}",
        f"body/add (part of {ESCAPED})",
    ]


def test_without_a_measurement_there_is_no_table(tmp_path: Path):
    assert blocks_of(blocks, tmp_path, quantize=QUANTIZE, build=BUILD) == ()
