"""Matches: what quantize would do is known before anything runs."""

from support.small import conv_model

from qdqtool.jobs.matches import list_matches
from qdqtool.models.graph.model import Model
from qdqtool.quantization.planning.placement import Selection
from qdqtool.quantization.planning.recipe import Recipe


def test_list_matches_shows_what_patterns_match_and_what_would_be_done():
    recipe = Recipe(selection=Selection(nodes_to_exclude=("conv[2-9]",)))
    report = list_matches(Model(conv_model()), recipe)
    assert [(match.pattern, match.nodes) for match in report.patterns] == [("conv[2-9]", ("conv2",))]
    assert [node.node for node in report.quantized] == ["conv1"]
    assert [(node.node, node.reason) for node in report.skipped] == [
        ("conv2", "excluded by --nodes-to-exclude 'conv[2-9]'")
    ]
