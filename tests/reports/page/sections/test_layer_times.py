"""The layers of an engine on the page: sums, conversions and the slowest layers, from a saved report."""

from pathlib import Path

from support.page_blocks import blocks_of, column, facts, lines, states, table, texts
from support.printed import ESCAPED, HOSTILE
from support.saved_reports import BUILD, LAYERS, edited

from qdqtool.reports.page.sections.layer_times import blocks


def test_sums_conversions_nodes_and_the_slowest_layers(tmp_path: Path):
    found = blocks_of(blocks, tmp_path, layers=LAYERS)
    assert [type(block).__name__ for block in found] == ["Facts", "Lines", "Table", "Table", "Table", "Table"]
    assert [text for _, text, _ in facts(found)] == ["layers.json", "profile.json", "m.int8.onnx", "inspector"]
    assert lines(found)[0][1][0] == "2 ms in one inference, the mean of 100"
    types = table(found, "Layers by type")
    assert texts(types, "Computes in") == ["int8", "reformat", "unknown"]
    assert [cell.sort for cell in column(types, "Time")] == [1.25, 0.5, 0.25]
    assert texts(types, "Share") == ["62.50%", "25.00%", "12.50%"]
    assert states(types, "Computes in") == [None, None, "unknown"]
    slowest = table(found, "Layers, the slowest first")
    assert texts(slowest, "Layer") == ["conv", "copy", "own"]
    assert texts(slowest, "Computes in") == ["int8", "reformat", "unknown"]
    assert texts(table(found, "Conversions"), "Conversion") == ["float32 -> int8, reformat"]
    nodes = table(found, "Quantized nodes")
    assert texts(nodes, "Node") == ["other", "conv"]
    assert states(nodes, "Actual") == ["unknown", "passed"]


def test_layers_without_times(tmp_path: Path):
    found = blocks_of(
        blocks, tmp_path, layers=edited(LAYERS, lambda it: it.update(profile=None, milliseconds=None, nodes=[]))
    )
    assert "Time" not in [each.title for each in table(found, "Layers in the order").columns]
    assert texts(table(found, "Layers in the order"), "Layer") == ["copy", "conv", "own"]


def test_hostile_names_are_escaped(tmp_path: Path):
    found = blocks_of(blocks, tmp_path, layers=edited(LAYERS, lambda it: it["layers"][0].update(name=HOSTILE)))
    assert ESCAPED in texts(table(found, "Layers, the slowest first"), "Layer")


def test_a_page_without_layers_has_no_section(tmp_path: Path):
    assert blocks_of(blocks, tmp_path, build=BUILD) == ()
