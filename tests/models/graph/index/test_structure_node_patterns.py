"""Patterns that match one node by a name of its own."""

from fnmatch import fnmatchcase

import pytest
from onnx import helper
from support.small import make_model

from qdqtool.models.graph.index.structure import NodePatterns
from qdqtool.models.graph.index.view import GraphView
from qdqtool.models.graph.model import Model


def patterns(*nodes: tuple[str, str]) -> list[str]:
    """The patterns of a chain of Relu nodes, each given by its name and its output."""
    tensors = ["x", *(output for _, output in nodes)]
    chain = [helper.make_node("Relu", [tensors[at]], [output], name=name) for at, (name, output) in enumerate(nodes)]
    model = make_model(chain, {"x": (2, 2)}, {tensors[-1]: (2, 2)}, {})
    view = GraphView(Model(model))
    found = NodePatterns(view)
    return [found.pattern(node) for node in view.nodes()]


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ([("a", "p"), ("b", "q")], ["a", "b"]),
        ([("", "p"), ("b", "q")], ["p", "b"]),
        ([("a", "p"), ("a", "q")], ["p", "q"]),
        ([("a", "b"), ("b", "q")], ["a", "q"]),
        ([("a", "a"), ("b", "q")], ["a", "b"]),
        ([("a[0]*?", "p")], ["a[[]0][*][?]"]),
    ],
)
def test_the_first_name_that_no_other_node_has(nodes, expected):
    found = patterns(*nodes)
    assert found == expected
    for at, pattern in enumerate(found):
        matched = [any(fnmatchcase(name, pattern) for name in names) for names in nodes]
        assert matched == [other == at for other in range(len(nodes))]
