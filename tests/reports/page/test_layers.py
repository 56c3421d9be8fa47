"""Layers are joined by scope and label; what two nodes of one name have is of neither."""

from pathlib import Path
from typing import Any

from support.saved_reports import ALL, BUILD, edited, save

from qdqtool.reports.page.layers import Layer, join_layers
from qdqtool.reports.saved.reading import read_reports
from qdqtool.reports.saved.story import join


def layers(folder: Path, **documents: Any) -> dict[str, Layer]:
    return {layer.node: layer for layer in join_layers(join(read_reports(save(folder, **documents))))}


def test_each_report_adds_what_it_knows(tmp_path: Path):
    found = layers(tmp_path, **ALL)

    assert [*found] == ["conv", "add", "fc"]
    assert found["conv"] == Layer(
        node="conv",
        graph="",
        op_type="Conv",
        noise_share=0.75,
        alone_db=48.5,
        gain_db=-0.5,
        cost_share=0.9,
        input_db=33.5,
        clipped=0.05,
        planned="int8",
        actual="int8",
    )
    assert found["add"].leader == "conv"
    assert found["fc"].stays_float


def test_the_worst_input_counts(tmp_path: Path):
    def add(report: Any) -> None:
        report["boundaries"].append({**report["boundaries"][0], "sqnr_db": 12.0, "clipped": 1})

    found = layers(tmp_path, **ALL | {"check": edited(ALL["check"], add)})

    assert (found["conv"].input_db, found["conv"].clipped) == (12.0, 0.05)


def test_nodes_of_one_name_and_of_other_scopes_are_not_joined(tmp_path: Path):
    twice = edited(BUILD, lambda it: it["nodes"].append({**it["nodes"][0], "actual": "float32"}))
    inner = edited(BUILD, lambda it: it["nodes"][0].update(graph="body"))
    assert layers(tmp_path, **ALL | {"build": twice})["conv"].actual is None
    both = join_layers(join(read_reports(save(tmp_path, **ALL | {"build": inner}))))
    assert [(layer.graph, layer.actual) for layer in both if layer.node == "conv"] == [("", None), ("body", "int8")]
