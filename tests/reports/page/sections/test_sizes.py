"""Sizes of files and weights, and how many operators of each type are quantized."""

from pathlib import Path

from support.page_blocks import blocks_of, column, facts, table
from support.printed import ESCAPED, HOSTILE
from support.saved_reports import BUILD, CHECK, INSPECT, QUANTIZE, edited

from qdqtool.reports.blocks import Table
from qdqtool.reports.page.sections.sizes import blocks


def test_sizes_are_in_bytes_and_in_relation_to_the_float_model(tmp_path: Path):
    assert facts(blocks_of(blocks, tmp_path, quantize=QUANTIZE, build=BUILD, inspect=INSPECT)) == [
        ("Float model", "4 kB", None),
        ("Quantized model", "1 kB, 25.0% of it", None),
        ("Engine", "5 kB", None),
        ("Weights in int8", "600 bytes", None),
    ]


def test_a_float_model_without_bytes_has_no_ratio(tmp_path: Path):
    empty = edited(QUANTIZE, lambda it: it["sizes"].update(before=0))
    assert facts(blocks_of(blocks, tmp_path, quantize=empty))[:2] == [
        ("Float model", "0 bytes", None),
        ("Quantized model", "1 kB", None),
    ]


def test_inspect_knows_the_size_where_quantize_is_absent(tmp_path: Path):
    assert facts(blocks_of(blocks, tmp_path, inspect=INSPECT)) == [
        ("net.int8.onnx", "1 kB", None),
        ("Weights in int8", "600 bytes", None),
    ]


def test_every_engine_has_its_size_also_one_that_was_not_kept(tmp_path: Path):
    missed = edited(BUILD, lambda it: it.update(engine=None, passed=False, bytes=7000))
    assert facts(blocks_of(blocks, tmp_path, build=BUILD, missed=missed)) == [
        ("Engine [build.json]", "5 kB", None),
        ("Engine [missed.json]", "7 kB; not kept, since a gate was missed", None),
    ]


def test_operators_keep_their_order_and_counts_sort_as_numbers(tmp_path: Path):
    coverage = [
        {"op_type": "Conv", "total": 12000, "quantized": 9, "partly": 1},
        {"op_type": HOSTILE, "total": 10, "quantized": 0, "partly": 0},
    ]
    found = table(blocks_of(blocks, tmp_path, inspect=INSPECT | {"coverage": coverage}), "Quantized operators of net")

    assert [[cell.text for cell in row] for row in found.rows] == [
        ["Conv", "12,000", "9", "1"],
        [ESCAPED, "10", "0", "0"],
    ]
    assert [cell.sort for cell in column(found, "Nodes")] == [12000.0, 10.0]


def test_work_and_weights_of_model_and_engine_by_type(tmp_path: Path):
    half = {"by_type": {"int8": 3_000, "float32": 1_000}, "weight_bytes": {"int8": 600, "float32": 40}}
    build = BUILD | {"macs": {"by_type": {"int8": 4_000}, "weight_bytes": {"int8": 640}}}
    told = [["int8", "3,000 (75.00%)", "600"], ["float32", "1,000 (25.00%)", "40"]]
    for documents, more in (
        ({"inspect": INSPECT | {"work": half}}, [[], []]),
        ({"quantize": QUANTIZE | {"work": half}, "build": build}, [["4,000 (100.00%)", "640"], ["", ""]]),
        ({"build": build | {"work": half}}, [["4,000 (100.00%)", "640"], ["", ""]]),
    ):
        found = table(blocks_of(blocks, tmp_path, **documents), "Multiply-accumulates and bytes")
        assert [[cell.text for cell in row] for row in found.rows] == [a + b for a, b in zip(told, more, strict=True)]


def test_without_operators_there_is_no_table_and_without_sizes_nothing(tmp_path: Path):
    found = blocks_of(blocks, tmp_path, inspect=INSPECT | {"coverage": []})
    assert not any(isinstance(block, Table) for block in found)
    assert blocks_of(blocks, tmp_path, check=CHECK) == ()
