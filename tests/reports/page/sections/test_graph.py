"""What the picture of the graph says of each node, and where it begins."""

from pathlib import Path
from typing import Any

from support.saved_reports import ALL, BUILD, QUANTIZE, SENSITIVITY, edited, save

from qdqtool.reports.blocks import Drawing
from qdqtool.reports.page.sections.graph import blocks
from qdqtool.reports.saved.reading import read_reports
from qdqtool.reports.saved.story import join


def drawn(folder: Path, **documents: Any) -> Drawing:
    (drawing,) = blocks(join(read_reports(save(folder, **documents))))
    assert isinstance(drawing, Drawing)
    return drawing


def test_without_other_reports_the_plan_is_shown(tmp_path: Path):
    nodes = drawn(tmp_path, quantize=QUANTIZE).nodes
    assert [(node.state, node.detail) for node in nodes] == [
        ("quantized", "conv (Conv): int8"),
        ("other", "relu (Relu): float"),
        ("float", "fc (Gemm): unquantized"),
    ]
    assert [node.inputs for node in nodes] == [((-1, "int8"),), ((0, ""),), ((1, ""),)]


def test_what_the_engine_runs_comes_first(tmp_path: Path):
    fallen = edited(BUILD, lambda it: it["nodes"][0].update(name="conv", planned="int8", actual="float32"))
    (conv, *_) = drawn(tmp_path, quantize=QUANTIZE, build=fallen).nodes
    assert (conv.state, conv.label) == ("fallback", "float32, planned int8")
    unknown = edited(fallen, lambda it: it["nodes"][0].update(actual="unknown"))
    (conv, *_) = drawn(tmp_path, quantize=QUANTIZE, build=unknown).nodes
    assert (conv.state, conv.label) == ("quantized", "int8")


def test_weights_alone_are_told_apart(tmp_path: Path):
    weights = edited(QUANTIZE, lambda it: it["nodes"][0].update(formats=[""], weights="int4"))
    assert drawn(tmp_path, quantize=weights).nodes[0].label == "int4 weights"


def test_it_begins_at_the_noisiest_layer_and_counts_colours(tmp_path: Path):
    def noisy(report: Any) -> None:
        report["nodes"][0].update(node="fc", nodes=["fc"], noise_share=0.5, worst_sqnr_db=20.0)

    drawing = drawn(tmp_path, quantize=QUANTIZE, sensitivity=edited(SENSITIVITY, noisy))
    assert drawing.start == 2
    assert drawing.nodes[2].detail == "fc (Gemm): unquantized, 50.00% of the noise, 20.00 dB with it alone"
    assert drawing.counts == {"quantized": 1, "float": 1, "other": 1}


def test_reports_without_nodes_have_no_picture(tmp_path: Path):
    story = join(
        read_reports(save(tmp_path, check=ALL["check"], quantize=edited(QUANTIZE, lambda it: it.pop("nodes"))))
    )
    assert blocks(story) == ()
